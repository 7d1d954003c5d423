#include "sluice/process/process_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/process/bytes.hpp"
#include "sluice/process/waiting_report.hpp"
#include "sluice/waiting.hpp"

namespace sluice::process {
namespace {

/// A rank that dies takes others with it: a lost connection shows there as an error of their own, maybe
/// before the death itself is known.
constexpr Duration kDeathIsKnown = std::chrono::milliseconds(500);
constexpr Duration kLook = std::chrono::milliseconds(10);

/// What one rank tells the others after an iteration.
struct Share {
  host::RankReport report;
  AgreementStatistics agreement;
  std::vector<Decision> decisions;
  std::vector<Event> events;
};

std::vector<std::byte> pack(const Share& share) {
  ByteWriter writer;
  writer.put(share.report.started);
  writer.put(share.report.ended);
  writer.put(share.report.busy);
  writer.put(share.report.blocked);
  writer.put(share.report.dispatching);
  writer.put(share.report.tasks);
  writer.put(share.report.peak_in_flight);
  writer.put_all(std::span(share.report.ran));
  writer.put(share.agreement);
  writer.put_all(std::span(share.decisions));
  writer.put_all(std::span(share.events));
  return writer.bytes();
}

Share unpack(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Share share;
  share.report.started = reader.get<Time>();
  share.report.ended = reader.get<Time>();
  share.report.busy = reader.get<Duration>();
  share.report.blocked = reader.get<Duration>();
  share.report.dispatching = reader.get<Duration>();
  share.report.tasks = reader.get<std::uint32_t>();
  share.report.peak_in_flight = reader.get<std::uint32_t>();
  share.report.ran = reader.get_all<Done>();
  share.agreement = reader.get<AgreementStatistics>();
  share.decisions = reader.get_all<Decision>();
  share.events = reader.get_all<Event>();
  return share;
}

std::string nothing_waits_for(std::uint32_t rank) {
  return fmt::format("no task here waits for rank {}", rank);
}

/// To the clock of rank 0.
void move(Share& share, Duration offset) {
  share.report.started += offset;
  share.report.ended += offset;
  for (Done& done : share.report.ran) {
    done.started += offset;
    done.ended += offset;
  }
  for (Decision& decision : share.decisions) decision.at += offset;
  for (Event& event : share.events) {
    event.at += offset;
    if (event.kind == EventKind::Ran) event.value += offset.count();
  }
}

}  // namespace

class ProcessRun::Watch final : public host::RunWatch {
 public:
  explicit Watch(ControlPlane& control) : control_(control) {}

  [[nodiscard]] bool failed() const noexcept override { return control_.failed(); }
  void progressed(Time at) noexcept override { control_.progressed(at); }
  /// The control plane's watchdog knows how all ranks get on.
  void idle(Time /*now*/) override {}

 private:
  ControlPlane& control_;
};

ProcessRun::ProcessRun(const Pipeline& pipeline, Policy policy, host::Workload workload,
                       host::RunSettings settings, const ProcessParts& parts)
    : pipeline_(pipeline),
      workload_(std::move(workload)),
      settings_(std::move(settings)),
      parts_(parts),
      stage_(parts.grid.place_of(parts.control.rank()).stage),
      watch_(std::make_unique<Watch>(parts.control)),
      logs_(pipeline.stages()) {
  if (parts.grid.ranks() != parts.control.ranks() || parts.grid.stages != pipeline.stages()) {
    throw ConfigError("stages",
                      fmt::format("{} stages x {} replicas x {} members on {} ranks", pipeline.stages(),
                                  parts.grid.replicas, parts.grid.group, parts.control.ranks()));
  }
  host::sharpen_sleeps();
  runner_ = std::make_unique<host::RankRunner>(
      pipeline_, workload_, settings_, std::move(policy),
      host::RankParts{parts.control.rank(), stage_, parts.buffers, parts.transport, parts.agreement,
                      parts.wake, *watch_});
}

ProcessRun::~ProcessRun() = default;

host::IterationReport ProcessRun::run(const Iteration& iteration) {
  if (parts_.control.failed()) leave();
  host::RankReport own = run_own(iteration);
  try {
    return exchange(std::move(own));
  } catch (const Aborted& error) {
    const std::optional<Failure> failure = parts_.control.failure();
    if (!failure) throw;
    throw Aborted(
        fmt::format("{}\n{}: its iteration has ended", error.what(), nothing_waits_for(failure->rank)));
  }
}

host::RankReport ProcessRun::run_own(const Iteration& iteration) {
  parts_.control.working(true);
  try {
    host::RankReport report = runner_->run(iteration);
    parts_.control.working(false);
    return report;
  } catch (const TaskError& error) {
    settle(error.what());
    throw;
  } catch (const std::exception& error) {
    const std::string cause = to_string(parts_.grid, parts_.control.rank()) + ": " + error.what();
    settle(cause);
    throw Error(cause);
  }
}

/// This rank has failed, or was told that another one has.
void ProcessRun::settle(const std::string& cause) {
  const auto until = std::chrono::steady_clock::now() + kDeathIsKnown;
  while (!parts_.control.failed() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kLook);
  if (parts_.control.failed()) leave();
  parts_.control.fail(Failure::Kind::Failed, cause);
}

/// Another rank has failed, or all stand still.
void ProcessRun::leave() {
  const Failure failure = parts_.control.failure().value();
  const Waiting waiting = runner_->waiting();
  parts_.control.report(waiting_json(waiting, parts_.grid));
  std::string text = failure.cause;
  if (failure.kind != Failure::Kind::Stalled && failure.rank != parts_.control.rank()) {
    const std::string behind = waiting_for(waiting, pipeline_, parts_.grid, failure.rank);
    text += "\n" + (behind.empty() ? nothing_waits_for(failure.rank) : behind);
  }
  text += "\n" + to_string(waiting);
  if (failure.kind == Failure::Kind::Stalled) throw StallError(text);
  throw Aborted(text);
}

host::IterationReport ProcessRun::exchange(host::RankReport own) {
  Share share;
  share.report = std::move(own);
  share.agreement = parts_.agreement.statistics();
  const RankPlace place = parts_.grid.place_of(parts_.control.rank());
  const bool speaks_for_stage = place.replica == 0 && place.member == 0;
  if (!speaks_for_stage) share.report.ran.clear();
  if (speaks_for_stage) {
    const std::span<const Decision> decisions = runner_->dispatcher().log().decisions();
    share.decisions.assign(decisions.begin(), decisions.end());
    if (!settings_.recorders.empty()) {
      const Recorder& recorder = *settings_.recorders[stage_];
      for (std::size_t i = 0; i < recorder.size(); ++i) share.events.push_back(recorder[i]);
    }
  }
  move(share, parts_.control.clock_offset());
  const std::vector<std::vector<std::byte>> all = parts_.control.all_gather(pack(share));
  agreements_.clear();
  for (std::uint32_t rank = 0; parts_.grid.group > 1 && rank < all.size(); ++rank)
    agreements_.push_back(unpack(all[rank]).agreement);
  std::vector<host::RankReport> reports;
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    Share theirs = unpack(all[parts_.grid.rank_of({stage, 0, 0})]);
    reports.push_back(std::move(theirs.report));
    logs_[stage].clear();
    logs_[stage].reserve_more(theirs.decisions.size());
    for (const Decision& decision : theirs.decisions) logs_[stage].append(decision);
    if (settings_.recorders.empty()) continue;
    settings_.recorders[stage]->clear();
    for (const Event& event : theirs.events) settings_.recorders[stage]->record(event);
  }
  runner_->dispatcher().log().clear();
  return host::IterationReport(std::move(reports));
}

void ProcessRun::rank_by(StageId stage, Hint hint) {
  if (stage == stage_) runner_->dispatcher().rank_by(std::move(hint));
}

DecisionLog& ProcessRun::log(StageId stage) { return logs_[stage]; }

}  // namespace sluice::process
