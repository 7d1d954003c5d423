#include "bindings.hpp"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "dlpack_capsule.hpp"
#include "method_argument.hpp"
#include "sluice/error.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bytes.hpp"
#include "sluice/process/configuration.hpp"
#include "sluice/process/control_plane.hpp"
#include "sluice/process/process_run.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::python {
namespace {

/// How soon a signal such as Ctrl-C is seen while there is nothing to run.
constexpr Duration kSignals = std::chrono::milliseconds(100);

/// The first words go through a function of Python's, such as a collective over a store.
class PythonBootstrap final : public process::Bootstrap {
 public:
  PythonBootstrap(std::uint32_t rank, std::uint32_t ranks, std::string host, py::function all_gather)
      : rank_(rank), ranks_(ranks), host_(std::move(host)), all_gather_(std::move(all_gather)) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const std::string& host() const noexcept override { return host_; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    const py::gil_scoped_acquire acquired;
    const py::object all = all_gather_(py::bytes(reinterpret_cast<const char*>(own.data()), own.size()));
    std::vector<std::vector<std::byte>> gathered;
    for (const py::handle each : all) {
      const auto text = each.cast<std::string>();
      gathered.emplace_back(text.size());
      std::memcpy(gathered.back().data(), text.data(), text.size());
    }
    if (gathered.size() != ranks_)
      throw Error("all_gather returned the bytes of " + std::to_string(gathered.size()) + " ranks");
    return gathered;
  }

 private:
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::string host_;
  py::function all_gather_;
};

/// What the tasks of a step call, and the first exception that they raised.
struct PythonCode {
  py::object code;
  std::exception_ptr raised;
};

/// Calls the step's code for one chunk, on the thread that called `step`.
class PythonStage final : public host::Stage {
 public:
  PythonStage(Chunk chunk, PythonCode& code) : chunk_(chunk), code_(code) {}

  void forward(const host::TaskContext& context, std::span<host::Payload> inputs,
               std::span<host::Payload> outputs) override {
    guarded([&] {
      from_capsules(code_.code.attr("forward")(chunk_, context.microbatch, to_capsules(inputs)), outputs);
    });
  }
  void backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                std::span<host::Payload> input_grads) override {
    guarded([&] {
      from_capsules(code_.code.attr("backward")(chunk_, context.microbatch, to_capsules(output_grads), whole),
                    input_grads);
    });
  }
  void weight_grad(const host::TaskContext& context) override {
    guarded([&] { code_.code.attr("weight_grad")(chunk_, context.microbatch); });
  }

 private:
  /// The engine tells all ranks the text; this rank's caller gets the exception itself.
  template <typename Call>
  void guarded(Call call) {
    const py::gil_scoped_acquire acquired;
    try {
      call();
    } catch (const py::error_already_set& error) {
      if (!code_.raised) code_.raised = std::current_exception();
      throw Error(error.what());
    }
  }

  Chunk chunk_;
  PythonCode& code_;
};

class ProcessRank {
 public:
  ProcessRank(std::uint32_t rank, std::uint32_t ranks, std::string host, py::function all_gather,
              const tools::Method& method, host::RunSettings settings,
              const process::Configuration& configuration)
      : settings_(std::move(settings)), grid_{ranks, 1, 1}, pipeline_(method.pipeline()) {
    PythonBootstrap bootstrap(rank, ranks, std::move(host), std::move(all_gather));
    if (pipeline_.stages() != ranks)
      throw ConfigError("pipeline", "has " + std::to_string(pipeline_.stages()) + " stages for " +
                                        std::to_string(ranks) + " ranks");
    const auto stage = static_cast<StageId>(rank);
    process::check_same_configuration(bootstrap, configuration);
    process::ControlOptions control;
    control.stall_timeout = settings_.stall_timeout;
    control_ = std::make_unique<process::ControlPlane>(bootstrap, control);
    ucx::PlaneOptions plane;
    plane.job = draw_job(bootstrap);
    plane_ = std::make_unique<ucx::MessagePlane>(bootstrap, plane);
    buffers_ = std::make_unique<host::SlotBuffers>(
        pipeline_, stage,
        method.policy(stage).slots(pipeline_, stage, settings_.limit_of(stage), settings_.rules));
    std::vector<std::uint32_t> rank_of_stage(ranks);
    std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0U);
    transport_ = plane_->transport(0, pipeline_, stage, std::move(rank_of_stage), buffers_.get());
    run_ = std::make_unique<process::ProcessRun>(
        pipeline_, method.policy(stage), workload(stage), settings_,
        process::ProcessParts{grid_, *control_, *buffers_, *transport_, agreement_, plane_->wake()});
  }
  ~ProcessRank() {
    const py::gil_scoped_release released;
    close();
  }
  ProcessRank(const ProcessRank&) = delete;
  ProcessRank& operator=(const ProcessRank&) = delete;

  py::dict step(py::object code, bool forward_only) {
    if (!broken_.empty()) throw Error("an earlier step failed, and the run ended with it: " + broken_);
    if (run_ == nullptr) throw Error("the run was closed");
    code_.code = std::move(code);
    code_.raised = nullptr;
    const Iteration iteration{next_++, forward_only ? IterationKind::ForwardOnly : IterationKind::Training};
    host::RankReport own;
    const std::exception_ptr error = run(iteration, own);
    code_.code = py::none();
    if (error) fail(error);
    py::dict result;
    result["seconds"] = std::chrono::duration<double>(own.ended - own.started).count();
    result["busy_seconds"] = std::chrono::duration<double>(own.busy).count();
    result["dispatching_seconds"] = std::chrono::duration<double>(own.dispatching).count();
    result["tasks"] = own.tasks;
    result["peak_in_flight"] = own.peak_in_flight;
    return result;
  }

  /// Ends the run on all ranks.
  void give_up(const std::string& cause) {
    if (control_ == nullptr || !broken_.empty()) return;
    broken_ = cause;
    plane_->abandon();
    control_->fail(process::Failure::Kind::Failed, "rank " + std::to_string(control_->rank()) + ": " + cause);
  }

  void close() noexcept {
    run_.reset();
    transport_.reset();
    plane_.reset();
    control_.reset();
  }

 private:
  host::Workload workload(StageId stage) {
    host::Workload workload;
    std::vector<host::Stage*> code;
    for (const Chunk chunk : pipeline_.chunks_of(stage)) {
      stages_.push_back(std::make_unique<PythonStage>(chunk, code_));
      code.push_back(stages_.back().get());
    }
    workload.make_device = [this, code](std::uint32_t rank, StageId own, std::uint32_t, Wake& wake) {
      host::HostExecutor::Options options;
      options.rank = rank;
      options.depth = settings_.depth;
      options.lent_thread = true;
      auto executor = std::make_unique<host::HostExecutor>(pipeline_, own, code, *buffers_, wake, options);
      executor_ = executor.get();
      return executor;
    };
    workload.after_iteration = [this](std::uint32_t, const Iteration&) {
      plane_->settle([this] { return control_->failed(); });
    };
    return workload;
  }

  static std::uint64_t draw_job(process::Bootstrap& bootstrap) {
    std::random_device random;
    process::ByteWriter writer;
    writer.put((std::uint64_t{random()} << 32U) | random());
    return process::ByteReader(bootstrap.all_gather(writer.bytes()).front()).get<std::uint64_t>();
  }

  /// Decides on a thread of its own, which never takes the GIL, and runs what was decided on this one.
  std::exception_ptr run(const Iteration& iteration, host::RankReport& own) {
    const py::gil_scoped_release released;
    std::exception_ptr error;
    std::atomic<bool> ended{false};
    std::thread dispatcher([&] {
      try {
        own = run_->run(iteration).ranks[control_->rank()];
      } catch (...) {
        error = std::current_exception();
      }
      ended.store(true, std::memory_order_release);
      executor_->stop_waiting();
    });
    const host::SteadyClock clock;
    while (!ended.load(std::memory_order_acquire)) {
      if (!executor_->run_one(clock.now() + kSignals)) check_signals();
    }
    dispatcher.join();
    return error;
  }

  /// A signal handler that raises ends the run on all ranks.
  void check_signals() {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() == 0) return;
    const py::error_already_set error;
    if (!code_.raised) code_.raised = std::make_exception_ptr(error);
    const std::string text = error.what();
    const py::gil_scoped_release released;
    control_->fail(process::Failure::Kind::Failed, "rank " + std::to_string(control_->rank()) + ": " + text);
  }

  [[noreturn]] void fail(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      broken_ = what.what();
    }
    {
      const py::gil_scoped_release released;
      plane_->abandon();
    }
    if (code_.raised) std::rethrow_exception(std::exchange(code_.raised, nullptr));
    std::rethrow_exception(error);
  }

  host::RunSettings settings_;
  process::RankGrid grid_;
  Pipeline pipeline_;
  PythonCode code_{py::none(), nullptr};
  std::vector<std::unique_ptr<PythonStage>> stages_;
  SingleRank agreement_;
  std::unique_ptr<process::ControlPlane> control_;
  std::unique_ptr<ucx::MessagePlane> plane_;
  std::unique_ptr<host::SlotBuffers> buffers_;
  std::unique_ptr<Transport> transport_;
  /// The run's.
  host::HostExecutor* executor_ = nullptr;
  std::unique_ptr<process::ProcessRun> run_;
  std::uint64_t next_ = 0;
  std::string broken_;
};

std::unique_ptr<ProcessRank> make(std::int64_t rank, std::int64_t ranks, std::string host,
                                  py::function all_gather, const Pipeline& pipeline,
                                  const MethodArgument& method, const LimitArgument& limit,
                                  const std::string& delays, std::int64_t seed,
                                  const TimeArgument& stall_timeout,
                                  const std::vector<std::pair<std::string, std::string>>& configuration) {
  const std::uint32_t all = whole("ranks", ranks);
  const std::uint32_t own = whole("rank", rank, 0, all - 1);
  tools::MethodSettings bounds;
  bounds.limits = limits(limit, pipeline);
  const tools::Method made = make_method(method, pipeline, bounds);
  host::RunSettings settings;
  settings.limits = made.settings().limits;
  settings.rules = made.settings().rules;
  settings.delays = host::DelayModel::parse(delays);
  settings.seed = static_cast<std::uint64_t>(seed);
  settings.stall_timeout = duration("stall_timeout", stall_timeout);
  return std::make_unique<ProcessRank>(own, all, std::move(host), std::move(all_gather), made, settings,
                                       configuration);
}

}  // namespace

void bind_process_rank(py::module_& module) {
  py::class_<ProcessRank>(
      module, "ProcessRank",
      "One rank of a pipeline whose ranks are processes; `step` runs its share of an iteration.")
      .def(py::init(&make), py::arg("rank"), py::arg("ranks"), py::arg("host"), py::arg("all_gather"),
           py::arg("pipeline"), py::arg("method"), py::kw_only(),
           py::arg("limit") = LimitArgument(std::int64_t{32}), py::arg("delays") = "j0", py::arg("seed") = 0,
           py::arg("stall_timeout") = TimeArgument(60.0),
           py::arg("configuration") = std::vector<std::pair<std::string, std::string>>{},
           R"(Joins the other ranks; all make one at the same time.

host: an address of rank 0's host that every rank can connect to.
all_gather: takes this rank's bytes and returns the bytes of all ranks, in order; called while joining only.
configuration: pairs of a field and its value, which must be the same on all ranks.
Raises ConfigError naming the argument or the field and ranks that differ, Error naming ranks that cannot be reached.)")
      .def("step", &ProcessRank::step, py::arg("code"), py::arg("forward_only") = false,
           R"(Runs this rank's share of one iteration, on the calling thread.

code: an object with forward(chunk, microbatch, inputs) -> outputs, backward(chunk, microbatch, output_grads,
whole) -> input_grads and weight_grad(chunk, microbatch). Tensors are DLPack capsules, in one list an edge.
Raises what the code raised here; TaskError, Aborted or StallError naming the rank at fault.)")
      .def("give_up", &ProcessRank::give_up, py::arg("cause"), py::call_guard<py::gil_scoped_release>(),
           "Ends the run: the steps of all other ranks raise Aborted with the cause.")
      .def(
          "close",
          [](ProcessRank& self) {
            const py::gil_scoped_release released;
            self.close();
          },
          "Leaves the others in order. Takes about a second at most.");
}

}  // namespace sluice::python
