#include "sluice/trace/run_builder.hpp"

#include <algorithm>
#include <utility>

namespace sluice::trace {
namespace {

constexpr Time kMissing = Time::min();

bool complete(const RecordedMessage& message) {
  return message.sent != kMissing && message.offered != kMissing && message.accepted != kMissing &&
         message.arrived != kMissing;
}

RecordedMessage nothing_known(const MessageId& id) { return {id, kMissing, kMissing, kMissing, kMissing}; }

}  // namespace

/// One pass over the events of one rank.
class RunBuilder::Reading {
 public:
  Reading(RunBuilder& builder, StageId stage) : builder_(builder), stage_(stage) {}

  void take(const Event& event) {
    switch (event.kind) {
      case EventKind::Launched:
        slots_[{event.iteration, event.task()}] = event.slot();
        if (asked_) {
          builder_.run_.agreements.push_back({event.iteration, stage_, *asked_, event.at});
          asked_.reset();
        }
        break;
      case EventKind::Ran:
        builder_.run_.tasks.push_back({event.task(), event.iteration, stage_, event.whole(), slot_of(event),
                                       event.started(), event.at, event.at});
        break;
      case EventKind::Noticed:
        notice(event);
        break;
      case EventKind::Asked:
        asked_ = event.at;
        break;
      case EventKind::Offered:
        message(event).offered = event.at;
        break;
      case EventKind::Accepted:
        message(event).accepted = event.at;
        break;
      case EventKind::Arrived:
        message(event).arrived = event.at;
        break;
      case EventKind::Sent:
        message(event).sent = event.at;
        break;
      case EventKind::IterationBegin:
      case EventKind::IterationEnd:
      case EventKind::SendDone:
        break;
    }
  }

 private:
  RecordedMessage& message(const Event& event) {
    return builder_.open_.try_emplace(event.message(), nothing_known(event.message())).first->second;
  }

  Slot slot_of(const Event& event) const {
    const auto found = slots_.find({event.iteration, event.task()});
    return found == slots_.end() ? kNoSlot : found->second;
  }

  /// `Ran` is recorded right before it, unless that was lost.
  void notice(const Event& event) {
    if (builder_.run_.tasks.empty()) return;
    RecordedTask& last = builder_.run_.tasks.back();
    if (last.task == event.task() && last.iteration == event.iteration)
      last.noticed = std::max(event.at, last.end);
  }

  RunBuilder& builder_;
  StageId stage_;
  std::map<std::pair<std::uint64_t, Task>, Slot> slots_;
  std::optional<Time> asked_;
};

RunBuilder::RunBuilder(RecordedRun run) : run_(std::move(run)) {
  run_.decisions.resize(run_.pipeline.stages());
  for (StageId stage = 0; stage < run_.pipeline.stages(); ++stage)
    recorders_.push_back(std::make_unique<Recorder>(Recorder::room_for_iteration(run_.pipeline, stage)));
}

std::vector<Recorder*> RunBuilder::recorders() {
  std::vector<Recorder*> all;
  for (const auto& recorder : recorders_) all.push_back(recorder.get());
  return all;
}

void RunBuilder::keep(const Iteration& iteration, std::span<const std::span<const Decision>> decisions) {
  Time start = kNever;
  Time end = kMissing;
  for (StageId stage = 0; stage < recorders_.size(); ++stage) {
    const Recorder& recorder = *recorders_[stage];
    Reading reading(*this, stage);
    for (std::size_t i = 0; i < recorder.size(); ++i) {
      const Event& event = recorder[i];
      if (event.kind == EventKind::IterationBegin) start = std::min(start, event.at);
      end = std::max(end, event.at);
      reading.take(event);
    }
    run_.lost += recorder.lost();
  }
  if (end == kMissing) return;
  if (start == kNever) start = end;
  if (!zero_) zero_ = start;
  run_.iterations.push_back({iteration, start, end});
  for (auto at = open_.begin(); at != open_.end();) {
    if (complete(at->second)) run_.messages.push_back(at->second);
    at = complete(at->second) ? open_.erase(at) : std::next(at);
  }
  for (std::size_t stage = 0; stage < decisions.size(); ++stage)
    run_.decisions[stage].insert(run_.decisions[stage].end(), decisions[stage].begin(),
                                 decisions[stage].end());
  for (const auto& recorder : recorders_) recorder->clear();
}

void RunBuilder::drop() {
  open_.clear();
  for (const auto& recorder : recorders_) recorder->clear();
}

RecordedRun RunBuilder::run() const {
  RecordedRun run = run_;
  const Time zero = zero_.value_or(Time{0});
  const auto move = [zero](auto&... times) { ((times = std::max(times - zero, Time{0})), ...); };
  for (RecordedIteration& each : run.iterations) move(each.start, each.end);
  for (RecordedTask& each : run.tasks) move(each.start, each.end, each.noticed);
  for (RecordedMessage& each : run.messages) {
    move(each.sent, each.offered, each.accepted, each.arrived);
    // Two ranks read the clock each for itself, and the payload may be there before the offer is on file.
    each.offered = std::max(each.offered, each.sent);
    each.accepted = std::max(each.accepted, each.offered);
    each.arrived = std::max(each.arrived, each.accepted);
  }
  for (RecordedAgreement& each : run.agreements) move(each.asked, each.decided);
  for (auto& log : run.decisions) {
    for (Decision& each : log) move(each.at);
  }
  return run;
}

}  // namespace sluice::trace
