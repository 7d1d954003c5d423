#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "method/method.hpp"
#include "python_stage.hpp"
#include "shared_drive.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/control_plane.hpp"
#include "sluice/process/process_run.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::python {

/// How soon a signal such as Ctrl-C is seen while there is nothing to run.
inline constexpr Duration kSignalsSeen = std::chrono::milliseconds(100);

/// What the pipelines of a rank share.
struct RankParts {
  process::RankGrid grid;
  std::unique_ptr<process::ControlPlane> control;
  std::unique_ptr<ucx::MessagePlane> plane;
  PythonCode code;

  [[nodiscard]] process::RankPlace place() const { return grid.place_of(control->rank()); }
};

/// One pipeline of a rank.
class RankPipeline {
 public:
  /// @param number tells its messages from those of the rank's other pipelines
  RankPipeline(RankParts& parts, std::uint32_t number, const tools::Method& method,
               host::RunSettings settings)
      : parts_(parts),
        settings_(std::move(settings)),
        place_(parts.place()),
        pipeline_(method.pipeline()),
        buffers_(pipeline_, place_.stage,
                 method.policy(place_.stage)
                     .slots(pipeline_, place_.stage, settings_.limit_of(place_.stage), settings_.rules)),
        agreement_(std::make_unique<SingleRank>()) {
    const process::RankGrid& grid = parts.grid;
    std::vector<std::uint32_t> rank_of_stage;
    for (StageId stage = 0; stage < grid.stages; ++stage)
      rank_of_stage.push_back(grid.rank_of({stage, 0, place_.member}));
    transport_ = parts.plane->transport(number, pipeline_, place_.stage, std::move(rank_of_stage), &buffers_);
    // Ranks that follow one order have nothing to ask each other.
    if (grid.group > 1 && method.policy(place_.stage).mode() == Mode::Readiness) join_group(number);
    // Every rank has messages of its own, and so delays of its own.
    if (place_.member > 0) settings_.seed = host::draws::bits({settings_.seed, place_.member});
    host::Workload work = workload();
    run_ = std::make_unique<process::ProcessRun>(
        pipeline_, method.policy(place_.stage), std::move(work), settings_,
        process::ProcessParts{grid, *parts.control, buffers_, *transport_, *agreement_, drive_->run_wake()});
  }

  /// Tasks run on this thread, the only one that takes the GIL. It also decides, in turns with a thread that
  /// does while a task runs.
  std::exception_ptr run(bool forward_only, host::RankReport& own) {
    const py::gil_scoped_release released;
    const Iteration iteration{next_++, forward_only ? IterationKind::ForwardOnly : IterationKind::Training};
    std::exception_ptr error;
    std::binary_semaphore has_turn{0};
    drive_->begin();
    parts_.plane->share(&drive_->turn());
    std::thread other([&] {
      const std::lock_guard turn(drive_->turn());
      has_turn.release();
      try {
        own = run_->run(iteration).ranks[place_.stage];
      } catch (...) {
        error = std::current_exception();
      }
      drive_->end();
    });
    has_turn.acquire();
    drive();
    other.join();
    parts_.plane->share(nullptr);
    own.dispatching += drive_->driving();
    return error;
  }

 private:
  void join_group(std::uint32_t number) {
    const StageTasks tasks(pipeline_, place_.stage);
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t member = 0; member < parts_.grid.group; ++member)
      ranks.push_back(parts_.grid.rank_of({place_.stage, 0, member}));
    channel_ =
        parts_.plane->channel(number, std::move(ranks), agree::needs(agree::Form::Leader, tasks).longest);
    agreement_ = agree::make_agreement(agree::Form::Leader, tasks, *channel_, clock_);
  }

  host::Workload workload() {
    host::Workload workload;
    std::vector<host::Stage*> code;
    for (const Chunk chunk : pipeline_.chunks_of(place_.stage)) {
      stages_.push_back(std::make_unique<PythonStage>(chunk, parts_.code));
      code.push_back(stages_.back().get());
    }
    host::HostExecutor::Options options;
    options.rank = parts_.control->rank();
    options.depth = settings_.depth;
    options.lent_thread = true;
    drive_ = std::make_unique<SharedDrive>(pipeline_, place_.stage, std::move(code), buffers_, options,
                                           parts_.plane->wake());
    workload.make_device = [this](std::uint32_t, StageId, std::uint32_t, Wake&) {
      return drive_->executor();
    };
    workload.after_iteration = [this](std::uint32_t, const Iteration&) {
      parts_.plane->settle([this] { return parts_.control->failed(); });
    };
    return workload;
  }

  void drive() {
    const SharedDrive::Run run{run_->dispatcher(), parts_.plane->second_wake(),
                               [this] { return parts_.control->failed(); },
                               [this](Time at) { parts_.control->progressed(at); }};
    while (!drive_->ended()) {
      const bool ran = drive_->run_task();
      const bool more = ran && parts_.code.has_after_task;
      const bool launched =
          more ? drive_->drive_and_leave(run) : drive_->drive(run, clock_.now() + kSignalsSeen);
      if (more) after_task();
      if (!ran && !launched) check_signals();
    }
  }

  void after_task() {
    const py::gil_scoped_acquire acquired;
    try {
      parts_.code.guarded([this] { parts_.code.after_task(); });
    } catch (const Error& error) {
      end_all(error.what());
    }
  }

  /// A signal handler that raises ends the run on all ranks.
  void check_signals() {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() == 0) return;
    const py::error_already_set error;
    if (!parts_.code.raised) parts_.code.raised = std::make_exception_ptr(error);
    end_all(error.what());
  }

  void end_all(const std::string& cause) {
    const py::gil_scoped_release released;
    parts_.control->fail(process::Failure::Kind::Failed,
                         process::to_string(parts_.grid, parts_.control->rank()) + ": " + cause);
  }

  RankParts& parts_;
  host::RunSettings settings_;
  process::RankPlace place_;
  Pipeline pipeline_;
  host::SteadyClock clock_;
  std::vector<std::unique_ptr<PythonStage>> stages_;
  host::SlotBuffers buffers_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<agree::GroupChannel> channel_;
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<SharedDrive> drive_;
  std::unique_ptr<process::ProcessRun> run_;
  std::uint64_t next_ = 0;
};

}  // namespace sluice::python
