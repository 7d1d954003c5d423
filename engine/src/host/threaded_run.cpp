#include "sluice/host/threaded_run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/in_process_network.hpp"
#include "sluice/host/rank_runner.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {

/// What the rank threads and the caller share.
struct ThreadedRun::Shared final : RunWatch {
  Shared(const Pipeline& model, Workload work, const RunSettings& settings)
      : pipeline(model), workload(std::move(work)), options(settings), wakes(model.stages()) {}

  const Pipeline pipeline;
  const Workload workload;
  const RunSettings options;
  const SteadyClock clock;
  std::vector<EventWake> wakes;
  std::unique_ptr<InProcessNetwork> network;
  std::atomic<bool> any_failed{false};
  /// When any rank last got something done.
  std::atomic<Time::rep> last_progress{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t generation = 0;
  bool stop = false;
  Iteration iteration;
  std::size_t running = 0;
  std::exception_ptr first_error;
  std::string reports;

  [[nodiscard]] bool failed() const noexcept override { return any_failed.load(std::memory_order_acquire); }
  void progressed(Time at) noexcept override { last_progress.store(at.count(), std::memory_order_relaxed); }
  void idle(Time now) override {
    const Duration still = now - Time(last_progress.load(std::memory_order_relaxed));
    if (still < options.stall_timeout) return;
    throw StallError(
        fmt::format("no progress on any rank for {:.1f} s", std::chrono::duration<double>(still).count()));
  }

  /// Lets the rank threads that wait for an iteration go.
  void end() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
  }

  void fail(std::exception_ptr error, const std::string& cause, const std::string& report) {
    bool first = false;
    {
      const std::lock_guard lock(mutex);
      first = !first_error;
      if (first) first_error = std::move(error);
      if (!report.empty()) reports += "\n" + report;
    }
    any_failed.store(true, std::memory_order_release);
    if (first && workload.on_failure) workload.on_failure(cause);
    for (EventWake& wake : wakes) wake.notify();
  }
};

class ThreadedRun::Rank {
 public:
  Rank(Shared& shared, StageId stage, Policy policy, std::uint32_t slots)
      : shared_(shared), stage_(stage), buffers_(shared.pipeline, stage, slots), policy_(std::move(policy)) {}

  ~Rank() {
    if (thread_.joinable()) thread_.join();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] InProcessNetwork::Member member() {
    return {shared_.workload.stages.empty() ? nullptr : &buffers_, &shared_.wakes[stage_]};
  }

  /// Once the network is there.
  void start() {
    runner_ =
        std::make_unique<RankRunner>(shared_.pipeline, shared_.workload, shared_.options, std::move(policy_),
                                     RankParts{stage_, stage_, buffers_, shared_.network->endpoint(stage_),
                                               agreement_, shared_.wakes[stage_], shared_});
    thread_ = std::thread([this] { serve(); });
  }

  [[nodiscard]] RankReport take_report() { return std::exchange(report_, {}); }
  [[nodiscard]] Dispatcher& dispatcher() { return runner_->dispatcher(); }

 private:
  void serve() {
    sharpen_sleeps();
    std::uint64_t seen = 0;
    while (const auto iteration = next_iteration(seen)) {
      try {
        report_ = runner_->run(*iteration);
      } catch (const StallError& error) {
        shared_.fail(std::current_exception(), error.what(), to_string(runner_->waiting()));
      } catch (const Aborted& error) {
        shared_.fail(std::current_exception(), error.what(), to_string(runner_->waiting()));
      } catch (const std::exception& error) {
        shared_.fail(std::current_exception(), error.what(), {});
      } catch (...) {
        shared_.fail(std::current_exception(), "an exception of unknown type", {});
      }
      const std::lock_guard lock(shared_.mutex);
      --shared_.running;
      shared_.changed.notify_all();
    }
  }

  std::optional<Iteration> next_iteration(std::uint64_t& seen) {
    std::unique_lock lock(shared_.mutex);
    while (shared_.generation == seen && !shared_.stop)
      shared_.changed.wait_for(lock, std::chrono::seconds(1));
    if (shared_.stop) return std::nullopt;
    seen = shared_.generation;
    return shared_.iteration;
  }

  Shared& shared_;
  StageId stage_;
  SlotBuffers buffers_;
  Policy policy_;
  SingleRank agreement_;
  std::unique_ptr<RankRunner> runner_;
  RankReport report_;
  std::thread thread_;
};

ThreadedRun::ThreadedRun(const Pipeline& pipeline, const PolicyOf& policy_of, Workload workload,
                         const RunSettings& options) {
  if (!workload.stages.empty() && workload.stages.size() != pipeline.chunks()) {
    throw ConfigError("stages", std::to_string(workload.stages.size()) + " given for " +
                                    std::to_string(pipeline.chunks()) + " chunks");
  }
  if (workload.stages.empty() && !workload.task_time && !workload.make_device)
    throw ConfigError("workload", "has neither stages nor task times nor a device of its own");
  if (!options.limits.empty() && options.limits.size() != pipeline.stages()) {
    throw ConfigError("limit", std::to_string(options.limits.size()) + " given for " +
                                   std::to_string(pipeline.stages()) + " stages");
  }
  if (!options.recorders.empty() && options.recorders.size() != pipeline.stages()) {
    throw ConfigError("recorders", std::to_string(options.recorders.size()) + " given for " +
                                       std::to_string(pipeline.stages()) + " stages");
  }
  if (!options.observers.empty() && options.observers.size() != pipeline.stages()) {
    throw ConfigError("observers", std::to_string(options.observers.size()) + " given for " +
                                       std::to_string(pipeline.stages()) + " stages");
  }
  shared_ = std::make_unique<Shared>(pipeline, std::move(workload), options);
  std::vector<InProcessNetwork::Member> members;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    Policy policy = policy_of(stage);
    const std::uint32_t slots = policy.slots(pipeline, stage, options.limit_of(stage), options.rules);
    ranks_.push_back(std::make_unique<Rank>(*shared_, stage, std::move(policy), slots));
    members.push_back(ranks_.back()->member());
  }
  shared_->network = std::make_unique<InProcessNetwork>(shared_->pipeline, members);
  try {
    for (auto& rank : ranks_) rank->start();
  } catch (...) {
    shared_->end();
    throw;
  }
}

ThreadedRun::~ThreadedRun() {
  shared_->end();
  ranks_.clear();
}

IterationReport ThreadedRun::run(const Iteration& iteration) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->first_error) throw Aborted("the run has failed before");
  shared_->iteration = iteration;
  shared_->running = ranks_.size();
  shared_->last_progress.store(shared_->clock.now().count(), std::memory_order_relaxed);
  ++shared_->generation;
  shared_->changed.notify_all();
  while (shared_->running > 0) shared_->changed.wait_for(lock, std::chrono::seconds(1));
  if (shared_->first_error) {
    try {
      std::rethrow_exception(shared_->first_error);
    } catch (const StallError& error) {
      throw StallError(error.what() + shared_->reports);
    }
  }
  std::vector<RankReport> reports;
  reports.reserve(ranks_.size());
  for (auto& rank : ranks_) reports.push_back(rank->take_report());
  return IterationReport(std::move(reports));
}

void ThreadedRun::rank_by(StageId stage, Hint hint) { ranks_[stage]->dispatcher().rank_by(std::move(hint)); }

bool ThreadedRun::failed() const noexcept { return shared_->failed(); }

DecisionLog& ThreadedRun::log(StageId stage) { return ranks_[stage]->dispatcher().log(); }

}  // namespace sluice::host
