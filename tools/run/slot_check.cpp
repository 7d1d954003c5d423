#include "run/slot_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "sluice/backpressure.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule.hpp"

namespace sluice::tools {
namespace {

using trace::RecordedRun;

bool is_schedule(std::string_view method) {
  const auto names = Schedule::names();
  return method.starts_with("csv:") || std::find(names.begin(), names.end(), method) != names.end();
}

/// The slots of a stage as its decisions take and leave them.
class StageCheck {
 public:
  StageCheck(const RecordedRun& run, StageId stage)
      : stage_(stage), rules_(run.rules), by_schedule_(is_schedule(run.method)) {
    const std::uint32_t limit = run.limits[stage];
    credits_ = Backpressure(run.pipeline, stage, limit, rules_).credits();
    const Policy policy = by_schedule_ ? Policy::replay(run.decisions[stage], run.pipeline, stage)
                                       : Policy::readiness(Hint::named("bf", run.pipeline, stage));
    slots_ = policy.slots(run.pipeline, stage, limit, rules_);
    for (const trace::RecordedIteration& each : run.iterations)
      iterations_[each.iteration.index].kind = each.iteration.kind;
  }

  void check(std::size_t at, const Decision& decision) {
    State& state = iterations_[decision.iteration];
    if (decision.task.pass == Pass::Forward) {
      take(at, decision, state);
    } else {
      check_held(at, decision, state);
    }
    leave(decision, state);
  }

 private:
  using Pair = std::pair<Chunk, Microbatch>;

  /// One iteration's.
  struct State {
    IterationKind kind = IterationKind::Training;
    std::uint32_t in_flight = 0;
    std::map<Slot, Pair> holders;
    std::map<Pair, Slot> slots;
  };

  static Pair pair_of(const Decision& decision) { return {decision.task.chunk, decision.task.microbatch}; }

  void take(std::size_t at, const Decision& decision, State& state) const {
    if (++state.in_flight > credits_ && !by_schedule_) {
      fail(at, decision,
           fmt::format("makes {} microbatches in flight, the limit allows {}", state.in_flight, credits_));
    }
    if (decision.slot >= slots_)
      fail(at, decision, fmt::format("is in slot {}, the stage has {}", decision.slot, slots_));
    const auto [held, taken] = state.holders.emplace(decision.slot, pair_of(decision));
    if (!taken) {
      fail(at, decision,
           fmt::format("is in slot {}, which microbatch {} of chunk {} still holds", decision.slot,
                       held->second.second, held->second.first));
    }
    state.slots[pair_of(decision)] = decision.slot;
  }

  void check_held(std::size_t at, const Decision& decision, const State& state) const {
    const auto own = state.slots.find(pair_of(decision));
    if (own == state.slots.end())
      fail(at, decision, "has no forward before it, or is not in flight any more");
    if (own->second != decision.slot)
      fail(at, decision, fmt::format("is in slot {}, its forward was in {}", decision.slot, own->second));
  }

  void leave(const Decision& decision, State& state) const {
    const bool last =
        decision.task.pass == Pass::WeightGrad || decision.whole || state.kind == IterationKind::ForwardOnly;
    const bool uncounts = rules_.hold_until_weight_grad || state.kind == IterationKind::ForwardOnly
                              ? last
                              : decision.task.pass == Pass::Backward;
    if (uncounts) --state.in_flight;
    if (!last) return;
    state.holders.erase(decision.slot);
    state.slots.erase(pair_of(decision));
  }

  [[noreturn]] void fail(std::size_t at, const Decision& decision, const std::string& what) const {
    throw ConfigError("replay", fmt::format("stage {}, decision {}: {} of iteration {} {}", stage_, at,
                                            to_string(decision.task), decision.iteration, what));
  }

  StageId stage_;
  Rules rules_;
  bool by_schedule_;
  std::uint32_t credits_ = 0;
  std::uint32_t slots_ = 0;
  std::map<std::uint64_t, State> iterations_;
};

}  // namespace

void check_slots(const RecordedRun& run) {
  for (StageId stage = 0; stage < run.pipeline.stages(); ++stage) {
    StageCheck stage_check(run, stage);
    for (std::size_t at = 0; at < run.decisions[stage].size(); ++at)
      stage_check.check(at, run.decisions[stage][at]);
  }
}

}  // namespace sluice::tools
