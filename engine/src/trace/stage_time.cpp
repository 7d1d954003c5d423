#include "sluice/trace/stage_time.hpp"

#include <set>

#include "intervals.hpp"
#include "task_inputs.hpp"

namespace sluice::trace {
namespace {

using Pairs = std::vector<std::pair<Time, Time>>;

/// One stage in one iteration.
class StageReading {
 public:
  StageReading(const RecordedRun& run, const RecordedIteration& iteration, StageId stage,
               const StageTaskList& tasks, const TaskInputs& inputs, Pairs agreeing, StageTime& time)
      : run_(run),
        iteration_(iteration),
        stage_(stage),
        tasks_(tasks),
        inputs_(inputs),
        time_(time),
        agreeing_(std::move(agreeing)) {
    for (const RecordedTask* each : tasks_) {
      if (each->task.pass == Pass::Forward)
        forward_ends_[each->task.chunk][each->task.microbatch] = each->end;
      if (each->task.pass == Pass::Backward)
        backward_ends_[each->task.chunk][each->task.microbatch] = each->end;
    }
    full_ = at_the_limit();
    held_ = held_by_limit();
  }

  void read() {
    for (const RecordedTask* each : tasks_) waiting_of(*each).insert(ready(*each));
    Time free = iteration_.start;
    Time noticed = iteration_.start;
    for (const RecordedTask* each : tasks_) {
      waiting_of(*each).erase(waiting_of(*each).find(ready(*each)));
      const Time start = std::clamp(each->start, free, iteration_.end);
      const Time end = std::clamp(each->end, start, iteration_.end);
      if (start > free) split_gap(free, start, *each, noticed);
      time_.compute += end - start;
      free = end;
      noticed = std::max(noticed, each->noticed);
    }
    time_.idle += iteration_.end - free;
  }

 private:
  /// When all its inputs were here; `kNever` for the forward of a source, of which none tells.
  Time ready(const RecordedTask& task) const {
    const RecordedMessage* last = inputs_.last_of(task.iteration, task.task);
    const Time arrived = last == nullptr ? Time{0} : last->arrived;
    switch (task.task.pass) {
      case Pass::Forward:
        return last == nullptr ? kNever : arrived;
      case Pass::Backward:
        return std::max(arrived, end_of(forward_ends_, task.task));
      case Pass::WeightGrad:
        return end_of(backward_ends_, task.task);
    }
    return kNever;
  }

  using Ends = std::map<Chunk, std::map<Microbatch, Time>>;
  static Time end_of(const Ends& ends, const Task& task) {
    const auto chunk = ends.find(task.chunk);
    if (chunk == ends.end()) return Time{0};
    const auto found = chunk->second.find(task.microbatch);
    return found == chunk->second.end() ? Time{0} : found->second;
  }

  std::multiset<Time>& waiting_of(const RecordedTask& task) {
    return task.task.pass == Pass::Forward ? waiting_forwards_ : waiting_others_;
  }

  static Time first(const std::multiset<Time>& waiting) {
    return waiting.empty() ? kNever : *waiting.begin();
  }

  /// @param noticed when the rank knew that it was free
  void split_gap(Time from, Time to, const RecordedTask& next, Time noticed) {
    const Intervals agreement = agreeing_.within(from, to);
    time_.agreement += agreement.length();
    const Intervals rest = Intervals(Pairs{{from, to}}).without(agreement);
    const Time ready_at = ready(next);
    const Time own = ready_at == kNever ? from : std::clamp(ready_at, from, to);
    time_.start += rest.within(own, to).length();
    // What is in flight changes only where tasks start and end.
    const bool full = !full_.within(from, to).parts().empty();
    const bool one_by_one = full && run_.pipeline.chunks_of(stage_).size() > 1 && !run_.rules.mixed_at_limit;
    const Time kept_out = one_by_one ? std::min(first(waiting_forwards_), first(waiting_others_)) : kNever;
    const Time others_ready = one_by_one ? kNever
                              : full     ? first(waiting_others_)
                                         : std::min(first(waiting_forwards_), first(waiting_others_));
    const Time others = std::clamp(others_ready, from, own);
    const Time passed_over = std::clamp(noticed, others, own);
    time_.start += rest.within(others, passed_over).length();
    time_.order += rest.within(passed_over, own).length();
    split_wait(rest.within(from, others), held_.within(from, to).united(Intervals(Pairs{{kept_out, others}})),
               next);
  }

  /// Nothing was ready.
  void split_wait(const Intervals& wait, const Intervals& held, const RecordedTask& next) {
    const Duration by_limit = wait.common(held).length();
    const Duration waited = wait.length() - by_limit;
    time_.limit += by_limit;
    const RecordedMessage* last = inputs_.last_of(next.iteration, next.task);
    if (last != nullptr && waited > Duration{0}) {
      time_.messages[{last->id.edge, last->id.direction}] += waited;
    } else {
      time_.start += waited;
    }
  }

  /// A forward was offered and had no slot, or was here while as many were in flight as may be.
  Intervals held_by_limit() const {
    Pairs offers;
    Pairs here;
    for (const RecordedTask* each : tasks_) {
      if (each->task.pass != Pass::Forward) continue;
      Time available = iteration_.start;
      for (const RecordedMessage* input : inputs_.of(each->iteration, each->task)) {
        offers.emplace_back(input->offered, input->accepted);
        available = std::max(available, input->arrived);
      }
      here.emplace_back(available, each->start);
    }
    return Intervals(std::move(offers)).united(Intervals(std::move(here)).common(full_));
  }

  Intervals at_the_limit() const {
    std::vector<std::pair<Time, int>> changes;
    for (const RecordedTask* each : tasks_) {
      if (each->task.pass == Pass::Forward) changes.emplace_back(each->start, 1);
      const bool last = each->whole || each->task.pass == Pass::WeightGrad ||
                        iteration_.iteration.kind == IterationKind::ForwardOnly;
      const bool ends = run_.rules.hold_until_weight_grad ? last : each->task.pass == Pass::Backward;
      if (ends) changes.emplace_back(each->end, -1);
    }
    std::sort(changes.begin(), changes.end());
    Pairs full;
    std::int64_t in_flight = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      in_flight += changes[i].second;
      const Time until = i + 1 < changes.size() ? changes[i + 1].first : iteration_.end;
      if (in_flight >= static_cast<std::int64_t>(run_.limits[stage_]))
        full.emplace_back(changes[i].first, until);
    }
    return Intervals(std::move(full));
  }

  const RecordedRun& run_;
  const RecordedIteration& iteration_;
  StageId stage_;
  const StageTaskList& tasks_;
  const TaskInputs& inputs_;
  StageTime& time_;
  Intervals agreeing_;
  Ends forward_ends_;
  Ends backward_ends_;
  Intervals full_;
  Intervals held_;
  /// When the tasks that have not run were ready.
  std::multiset<Time> waiting_forwards_;
  std::multiset<Time> waiting_others_;
};

}  // namespace

Duration StageTime::waiting_for_messages() const {
  Duration sum{0};
  for (const auto& [edge, waited] : messages) sum += waited;
  return sum;
}

Duration StageTime::total() const {
  return compute + waiting_for_messages() + limit + order + agreement + start + idle;
}

std::vector<StageTime> stage_times(const RecordedRun& run) {
  std::vector<StageTime> times(run.pipeline.stages());
  const TaskInputs inputs(run);
  const auto lists = by_stage(run);
  std::map<std::pair<std::uint64_t, StageId>, Pairs> agreeing;
  for (const RecordedAgreement& each : run.agreements)
    agreeing[{each.iteration, each.stage}].emplace_back(each.asked, each.decided);
  const StageTaskList none;
  for (const RecordedIteration& iteration : run.iterations) {
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      const auto id = static_cast<StageId>(stage);
      const std::pair key{iteration.iteration.index, id};
      const auto list = lists.find(key);
      StageReading(run, iteration, id, list == lists.end() ? none : list->second, inputs, agreeing[key],
                   times[stage])
          .read();
    }
  }
  return times;
}

}  // namespace sluice::trace
