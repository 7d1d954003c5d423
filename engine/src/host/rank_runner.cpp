#include "sluice/host/rank_runner.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/lockstep_executor.hpp"

namespace sluice::host {
namespace {

constexpr Duration kLongestRest = std::chrono::milliseconds(100);
constexpr unsigned long kTimerSlackNs = 1000;

}  // namespace

void sharpen_sleeps() noexcept {
  // The default slack would add 50 us to every sleep.
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
}

RankRunner::RankRunner(const Pipeline& pipeline, const Workload& workload, const RunSettings& settings,
                       Policy policy, const RankParts& parts)
    : pipeline_(pipeline), workload_(workload), settings_(settings), parts_(parts) {
  device_ = make_device();
  observed_ = std::make_unique<ObservedExecutor>(*device_);
  Transport* transport = &parts_.transport;
  if (!settings_.delays.none()) {
    delayed_ =
        std::make_unique<DelayedTransport>(*transport, pipeline_, parts_.stage, clock_, settings_.delays,
                                           settings_.seed, [this] { return compute_average(); });
    transport = delayed_.get();
  }
  DispatcherConfig config;
  config.rank = parts_.rank;
  config.stage = parts_.stage;
  config.limit = settings_.limit_of(parts_.stage);
  config.rules = settings_.rules;
  config.record_decisions = settings_.record_decisions;
  if (!settings_.recorders.empty()) config.recorder = settings_.recorders[parts_.stage];
  if (!settings_.observers.empty()) config.observer = settings_.observers[parts_.stage];
  dispatcher_ = std::make_unique<Dispatcher>(pipeline_, config, std::move(policy),
                                             Seams{*observed_, *transport, parts_.agreement, clock_});
}

std::unique_ptr<Executor> RankRunner::make_device() const {
  if (workload_.make_device) {
    auto device = workload_.make_device(parts_.rank, parts_.stage, parts_.buffers.size(), parts_.wake);
    if (device == nullptr)
      throw ConfigError("workload", "makes no device for rank " + std::to_string(parts_.rank));
    return device;
  }
  if (workload_.stages.empty() && workload_.lockstep != nullptr) {
    return std::make_unique<LockstepExecutor>(clock_, *workload_.lockstep, workload_.task_time,
                                              settings_.depth, settings_.lead);
  }
  if (workload_.stages.empty()) {
    return std::make_unique<EmulatedExecutor>(clock_, workload_.task_time, settings_.depth, settings_.lead);
  }
  std::vector<host::Stage*> code;
  for (const Chunk chunk : pipeline_.chunks_of(parts_.stage)) code.push_back(workload_.stages[chunk]);
  return std::make_unique<HostExecutor>(pipeline_, parts_.stage, std::move(code), parts_.buffers, parts_.wake,
                                        HostExecutor::Options{parts_.rank, settings_.depth});
}

Duration RankRunner::compute_average() const {
  return settings_.nominal_compute.value_or(observed_->compute_average().value());
}

RankReport RankRunner::run(const Iteration& iteration) {
  if (workload_.before_iteration) workload_.before_iteration(parts_.rank, iteration);
  observed_->begin(std::size_t{dispatcher_->tasks().size()} * kPasses);
  RankReport report;
  report.started = clock_.now();
  last_progress_ = report.started;
  parts_.watch.progressed(report.started);
  try {
    dispatcher_->begin(iteration);
    dispatch(report);
  } catch (...) {
    if (Observer* observer = dispatcher_->config().observer) observer->stopped();
    throw;
  }
  report.ended = clock_.now();
  summarize(report);
  if (workload_.after_iteration) workload_.after_iteration(parts_.rank, iteration);
  return report;
}

void RankRunner::dispatch(RankReport& report) {
  Idler idler(parts_.wake);
  while (!dispatcher_->finished()) {
    if (parts_.watch.failed()) throw Aborted("another rank failed");
    const Time before = clock_.now();
    if (dispatcher_->progress()) {
      const Time after = clock_.now();
      report.dispatching += after - before;
      last_progress_ = after;
      parts_.watch.progressed(after);
      idler.reset();
      continue;
    }
    const Time deadline = dispatcher_->next_deadline();
    // What has a time to come is not stuck, unless that is too far away to tell.
    if (deadline != kAnyTime && deadline < before + settings_.stall_timeout) parts_.watch.progressed(before);
    parts_.watch.idle(before);
    const Time next = deadline == kAnyTime ? before + settings_.poll_interval : deadline;
    idler.wait(std::min(next, before + kLongestRest));
  }
}

Waiting RankRunner::waiting() const {
  Waiting waiting = dispatcher_->waiting();
  waiting.since = clock_.now() - last_progress_;
  return waiting;
}

void RankRunner::summarize(RankReport& report) const {
  report.ran.assign(observed_->ran().begin(), observed_->ran().end());
  report.tasks = static_cast<std::uint32_t>(report.ran.size());
  report.peak_in_flight = dispatcher_->peak_in_flight();
  Time last = report.started;
  for (const Done& done : report.ran) {
    report.busy += done.ended - done.started;
    last = std::max(last, done.ended);
  }
  report.blocked = std::max(Duration{0}, last - report.started - report.busy);
}

}  // namespace sluice::host
