#include "sluice/host/threaded_run.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/delayed_transport.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/in_process_network.hpp"
#include "sluice/host/observed_executor.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::host {
namespace {

constexpr Duration kLongestSleep = std::chrono::milliseconds(100);
constexpr unsigned long kTimerSlackNs = 1000;

}  // namespace

double IterationReport::bubble_fraction() const {
  Duration busy{0};
  for (const RankReport& rank : ranks) busy += rank.busy;
  const double whole = static_cast<double>(duration().count()) * static_cast<double>(ranks.size());
  return whole > 0 ? 1.0 - static_cast<double>(busy.count()) / whole : 0.0;
}

/// What the rank threads and the caller share.
struct ThreadedRun::Shared {
  Shared(const Pipeline& model, Workload work, const ThreadedRunOptions& settings)
      : pipeline(model), workload(std::move(work)), options(settings), wakes(model.stages()) {}

  const Pipeline pipeline;
  const Workload workload;
  const ThreadedRunOptions options;
  const SteadyClock clock;
  std::vector<EventWake> wakes;
  std::unique_ptr<InProcessNetwork> network;
  std::atomic<bool> failed{false};
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
    failed.store(true, std::memory_order_release);
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
    device_ = make_device();
    observed_ = std::make_unique<ObservedExecutor>(*device_);
    Transport* transport = &shared_.network->endpoint(stage_);
    if (!shared_.options.delays.none()) {
      delayed_ = std::make_unique<DelayedTransport>(*transport, shared_.pipeline, stage_, shared_.clock,
                                                    shared_.options.delays, shared_.options.seed,
                                                    [this] { return compute_average(); });
      transport = delayed_.get();
    }
    DispatcherConfig config;
    config.rank = stage_;
    config.stage = stage_;
    config.limit = shared_.options.limit_of(stage_);
    config.rules = shared_.options.rules;
    config.record_decisions = shared_.options.record_decisions;
    if (!shared_.options.recorders.empty()) config.recorder = shared_.options.recorders[stage_];
    dispatcher_ = std::make_unique<Dispatcher>(shared_.pipeline, config, std::move(policy_),
                                               Seams{*observed_, *transport, agreement_, shared_.clock});
    thread_ = std::thread([this] { serve(); });
  }

  [[nodiscard]] RankReport take_report() { return std::exchange(report_, {}); }
  [[nodiscard]] Dispatcher& dispatcher() { return *dispatcher_; }

 private:
  std::unique_ptr<Executor> make_device() {
    if (shared_.workload.stages.empty()) {
      return std::make_unique<EmulatedExecutor>(shared_.clock, shared_.workload.task_time,
                                                shared_.options.depth);
    }
    std::vector<host::Stage*> code;
    for (const Chunk chunk : shared_.pipeline.chunks_of(stage_))
      code.push_back(shared_.workload.stages[chunk]);
    return std::make_unique<HostExecutor>(shared_.pipeline, stage_, std::move(code), buffers_,
                                          shared_.wakes[stage_],
                                          HostExecutor::Options{stage_, shared_.options.depth});
  }

  [[nodiscard]] Duration compute_average() const {
    return shared_.options.nominal_compute.value_or(observed_->compute_average().value());
  }

  void serve() {
    // The default slack would add 50 us to every sleep.
    prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    std::uint64_t seen = 0;
    while (const auto iteration = next_iteration(seen)) {
      try {
        run(*iteration);
      } catch (const StallError& error) {
        shared_.fail(std::current_exception(), error.what(), dispatcher_->waiting_report());
      } catch (const Aborted& error) {
        shared_.fail(std::current_exception(), error.what(), dispatcher_->waiting_report());
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

  void run(const Iteration& iteration) {
    if (shared_.workload.before_iteration) shared_.workload.before_iteration(stage_, iteration);
    observed_->begin(std::size_t{dispatcher_->tasks().size()} * kPasses);
    report_ = {};
    report_.started = shared_.clock.now();
    dispatcher_->begin(iteration);
    dispatch();
    report_.ended = shared_.clock.now();
    summarize();
    if (shared_.workload.after_iteration) shared_.workload.after_iteration(stage_, iteration);
  }

  void dispatch() {
    EventWake& wake = shared_.wakes[stage_];
    Idler idler(wake);
    while (!dispatcher_->finished()) {
      if (shared_.failed.load(std::memory_order_acquire)) throw Aborted("another rank failed");
      const Time before = shared_.clock.now();
      if (dispatcher_->progress()) {
        const Time after = shared_.clock.now();
        report_.dispatching += after - before;
        shared_.last_progress.store(after.count(), std::memory_order_relaxed);
        idler.reset();
        continue;
      }
      const Time deadline = dispatcher_->next_deadline();
      // What has a time to come is not stuck, unless that is too far away to tell.
      if (deadline < before + shared_.options.stall_timeout) {
        shared_.last_progress.store(before.count(), std::memory_order_relaxed);
      }
      check_for_stall(before);
      idler.wait(std::min(deadline, before + kLongestSleep));
    }
  }

  void check_for_stall(Time now) const {
    const Time last = std::max(Time(shared_.last_progress.load(std::memory_order_relaxed)), report_.started);
    if (now - last < shared_.options.stall_timeout) return;
    const double seconds = std::chrono::duration<double>(now - last).count();
    throw StallError(fmt::format("no progress on any rank for {:.1f} s", seconds));
  }

  void summarize() {
    report_.ran.assign(observed_->ran().begin(), observed_->ran().end());
    report_.tasks = static_cast<std::uint32_t>(report_.ran.size());
    report_.peak_in_flight = dispatcher_->peak_in_flight();
    Time last = report_.started;
    for (const Done& done : report_.ran) {
      report_.busy += done.ended - done.started;
      last = std::max(last, done.ended);
    }
    report_.blocked = std::max(Duration{0}, last - report_.started - report_.busy);
  }

  Shared& shared_;
  StageId stage_;
  SlotBuffers buffers_;
  Policy policy_;
  SingleRank agreement_;
  std::unique_ptr<Executor> device_;
  std::unique_ptr<ObservedExecutor> observed_;
  std::unique_ptr<DelayedTransport> delayed_;
  std::unique_ptr<Dispatcher> dispatcher_;
  RankReport report_;
  std::thread thread_;
};

ThreadedRun::ThreadedRun(const Pipeline& pipeline, const PolicyOf& policy_of, Workload workload,
                         const ThreadedRunOptions& options) {
  if (!workload.stages.empty() && workload.stages.size() != pipeline.chunks()) {
    throw ConfigError("stages", std::to_string(workload.stages.size()) + " given for " +
                                    std::to_string(pipeline.chunks()) + " chunks");
  }
  if (workload.stages.empty() && !workload.task_time)
    throw ConfigError("workload", "has neither stages nor task times");
  if (!options.limits.empty() && options.limits.size() != pipeline.stages()) {
    throw ConfigError("limit", std::to_string(options.limits.size()) + " given for " +
                                   std::to_string(pipeline.stages()) + " stages");
  }
  if (!options.recorders.empty() && options.recorders.size() != pipeline.stages()) {
    throw ConfigError("recorders", std::to_string(options.recorders.size()) + " given for " +
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
  IterationReport report;
  for (auto& rank : ranks_) report.ranks.push_back(rank->take_report());
  const auto by_start = [](const RankReport& a, const RankReport& b) { return a.started < b.started; };
  const auto by_end = [](const RankReport& a, const RankReport& b) { return a.ended < b.ended; };
  report.started = std::min_element(report.ranks.begin(), report.ranks.end(), by_start)->started;
  report.ended = std::max_element(report.ranks.begin(), report.ranks.end(), by_end)->ended;
  return report;
}

void ThreadedRun::rank_by(StageId stage, Hint hint) { ranks_[stage]->dispatcher().rank_by(std::move(hint)); }

bool ThreadedRun::failed() const noexcept { return shared_->failed.load(std::memory_order_acquire); }

DecisionLog& ThreadedRun::log(StageId stage) { return ranks_[stage]->dispatcher().log(); }

}  // namespace sluice::host
