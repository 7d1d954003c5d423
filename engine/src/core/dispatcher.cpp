#include "sluice/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "sluice/error.hpp"

namespace sluice {
namespace {

constexpr std::size_t kAnnounceAtOnce = 256;

/// A replayed iteration must hold every task of the stage exactly once, in an order it can run in.
void check_replayed(const StageTasks& tasks, const Iteration& iteration, std::span<const Task> order) {
  const std::string where = "iteration " + std::to_string(iteration.index);
  std::vector<std::uint8_t> seen(tasks.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::uint8_t& passes = seen[tasks.index(order[i].chunk, order[i].microbatch)];
    const PassMask bit = mask_of(order[i].pass);
    const bool possible = iteration.kind == IterationKind::Training || order[i].pass == Pass::Forward;
    if (!possible || passes != bit - 1) {
      throw ConfigError("replay", where + ", decision " + std::to_string(i) + ": " + to_string(order[i]) +
                                      " cannot run there");
    }
    passes |= bit;
  }
  const PassMask least = iteration.kind == IterationKind::Training
                             ? mask_of(Pass::Forward) | mask_of(Pass::Backward)
                             : mask_of(Pass::Forward);
  for (std::uint32_t index = 0; index < tasks.size(); ++index) {
    if ((seen[index] & least) == least) continue;
    throw ConfigError("replay", where + " does not run all of chunk " +
                                    std::to_string(tasks.task(Pass::Forward, index).chunk) + ", microbatch " +
                                    std::to_string(tasks.task(Pass::Forward, index).microbatch));
  }
}

}  // namespace

PassMask round_passes(const DispatcherConfig& config) {
  const auto lane = [&config](Pass pass) { return config.lanes[static_cast<std::size_t>(pass)]; };
  const bool apart =
      lane(Pass::WeightGrad) != lane(Pass::Forward) && lane(Pass::WeightGrad) != lane(Pass::Backward);
  return apart ? mask_of(Pass::Forward) | mask_of(Pass::Backward) : kAllPasses;
}

Dispatcher::Dispatcher(const Pipeline& pipeline, const DispatcherConfig& config, Policy policy,
                       const Seams& seams)
    : pipeline_(pipeline),
      config_(config),
      policy_(std::move(policy)),
      seams_(seams),
      tasks_(pipeline, config.stage),
      backpressure_(pipeline, config.stage, config.limit, config.rules),
      pool_(policy_.slots(pipeline, config.stage, config.limit, config.rules)),
      window_(tasks_, pool_.size()),
      arbiter_(tasks_, policy_.hint(), round_passes(config)),
      inbox_(pipeline, config.stage, config.rank),
      entries_(tasks_.size()),
      waiting_(tasks_.chunks()),
      unlaunched_(tasks_.chunks()),
      nominated_(tasks_.chunks()),
      next_nominee_(tasks_.chunks()),
      next_accumulation_(tasks_.chunks()),
      accumulating_(tasks_.chunks()),
      separate_(tasks_.size()),
      released_(tasks_.size()) {
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    in_edges_.push_back(pipeline.in_edges(tasks_.chunk_at(position)));
    out_edges_.push_back(pipeline.out_edges(tasks_.chunk_at(position)));
    has_source_ |= source(position);
  }
  size_forward_sets();
  changes_.reserve(kAnnounceAtOnce);
  order_.reserve(std::size_t{tasks_.size()} * kPasses);
}

void Dispatcher::size_forward_sets() {
  const Hint& hint = policy_.hint();
  const std::uint32_t forwards = hint.class_size(hint.class_of(Pass::Forward));
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position)
    (source(position) ? unlaunched_ : waiting_)[position] = ReadySet(forwards);
}

void Dispatcher::rank_by(Hint hint) {
  policy_ = Policy::readiness(std::move(hint));
  arbiter_ = Arbiter(tasks_, policy_.hint(), round_passes(config_));
  size_forward_sets();
}

void Dispatcher::begin(const Iteration& iteration) {
  iteration_ = iteration;
  if (!by_readiness()) {
    order_ = policy_.order(iteration);
    if (policy_.mode() == Mode::Replay) check_replayed(tasks_, iteration, order_);
    std::fill(separate_.begin(), separate_.end(), false);
    for (const Task& task : order_) {
      if (task.pass == Pass::WeightGrad) separate_[tasks_.index(task.chunk, task.microbatch)] = true;
    }
    window_.begin(tasks_, order_);
  }
  cursor_ = 0;
  released_ = launched_pairs_ = computed_ = in_flight_ = peak_ = held_by_order_ = 0;
  changes_.clear();
  unended_ = {};
  arbiter_.begin();
  seams_.agreement.begin(iteration, arbiter_);
  backpressure_.begin(iteration.kind);
  for (ReadySet& waiting : waiting_) waiting.clear();
  std::fill(next_accumulation_.begin(), next_accumulation_.end(), 0);
  std::fill(nominated_.begin(), nominated_.end(), Nominees{});
  std::fill(next_nominee_.begin(), next_nominee_.end(), 0);
  for (std::uint32_t index = 0; index < tasks_.size(); ++index) {
    const std::uint32_t position = index / tasks_.microbatches();
    entries_[index] = {kNoSlot, static_cast<std::uint8_t>(in_edges_[position].size()),
                       static_cast<std::uint8_t>(out_edges_[position].size() + 1), 0, 0};
    if (source(position)) unlaunched_[position].insert(policy_.hint().rank(Pass::Forward, index));
  }
  if (config_.record_decisions) log_.reserve_more(std::size_t{tasks_.size()} * kPasses);
  inbox_.begin(iteration.index);
  if (recording()) note_iteration(EventKind::IterationBegin);
  idle_told_ = false;
  if (config_.observer != nullptr) config_.observer->began(iteration);
  for (const Offer& offer : inbox_.held()) take_offer(offer);
  inbox_.clear_held();
}

bool Dispatcher::progress() {
  progress_time_ = kNever;
  bool happened = poll_done();
  happened |= poll_send_done();
  happened |= poll_offers();
  admit_waiting();
  happened |= poll_arrivals();
  happened |= launch_candidates();
  if (config_.observer != nullptr) tell_idle(happened);
  return happened;
}

/// Once until something happens.
void Dispatcher::tell_idle(bool happened) {
  if (happened) {
    idle_told_ = false;
  } else if (!idle_told_ && !finished()) {
    idle_told_ = true;
    config_.observer->waits(waits_for());
  }
}

Time Dispatcher::next_deadline() const {
  return std::min(
      {seams_.executor.next_deadline(), seams_.transport.next_deadline(), seams_.agreement.next_deadline()});
}

PassMask Dispatcher::lanes_with_room() const {
  const auto room = [&](Pass pass) { return seams_.executor.room(lane(pass)) > 0; };
  const bool forward = room(Pass::Forward);
  const bool backward = same_lane(Pass::Forward, Pass::Backward) ? forward : room(Pass::Backward);
  const bool weight_grad = same_lane(Pass::Backward, Pass::WeightGrad) ? backward : room(Pass::WeightGrad);
  return static_cast<PassMask>((forward ? mask_of(Pass::Forward) : 0) |
                               (backward ? mask_of(Pass::Backward) : 0) |
                               (weight_grad ? mask_of(Pass::WeightGrad) : 0));
}

bool Dispatcher::launch_candidates() {
  bool launched = false;
  while (const PassMask allowed = lanes_with_room()) {
    const std::optional<Task> task = decide(allowed);
    if (!task) break;
    launch(*task);
    launched = true;
  }
  return launched;
}

std::optional<Task> Dispatcher::decide(PassMask allowed) {
  if (!by_readiness()) return next_in_order(allowed);
  if (has_source_) refresh_sources();
  if (backpressure_.focusing()) {
    arbiter_.focus_on(backpressure_.focus());
  } else {
    arbiter_.clear_focus();
  }
  announce();
  if (backpressure_.holds_forwards()) allowed &= static_cast<PassMask>(~mask_of(Pass::Forward));
  if ((allowed & mask_of(Pass::WeightGrad)) != 0 && weight_grad_makes_room())
    allowed = mask_of(Pass::WeightGrad);
  if (allowed == 0) return std::nullopt;
  const std::optional<Task> task = seams_.agreement.poll(arbiter_, allowed);
  if (!task && recording()) note_asked(allowed);
  return task;
}

bool Dispatcher::weight_grad_makes_room() const {
  return config_.rules.weight_grad_makes_room && arbiter_.runnable(Pass::WeightGrad) > 0 &&
         arbiter_.runnable(Pass::Forward) == 0 && held_by_limit() > 0;
}

std::optional<Task> Dispatcher::next_in_order(PassMask allowed) const {
  if (cursor_ == order_.size()) return std::nullopt;
  const Task& task = order_[cursor_];
  return (mask_of(task.pass) & allowed) != 0 && ready(task) ? std::optional(task) : std::nullopt;
}

bool Dispatcher::ready(const Task& task) const {
  const Entry& state = entry(task);
  switch (task.pass) {
    case Pass::Forward: {
      const std::uint32_t position = tasks_.position(task.chunk);
      return source(position) ? admits(position, task.microbatch) : state.inputs_missing == 0;
    }
    case Pass::Backward:
      return state.gradients_missing == 0 && (!runs_whole(task) || may_accumulate(task));
    case Pass::WeightGrad:
      return arbiter_.contains(task) && may_accumulate(task);
  }
  return false;
}

/// A fixed order is always in turn, but says nothing of what another lane still accumulates.
bool Dispatcher::may_accumulate(const Task& task) const {
  const Accumulating& chunk = accumulating_[tasks_.position(task.chunk)];
  return chunk.running == 0 || chunk.lane == lane(task.pass);
}

bool Dispatcher::in_turn(const Task& task) const {
  return !config_.rules.ordered_accumulation || !by_readiness() ||
         next_accumulation_[tasks_.position(task.chunk)] == task.microbatch;
}

bool Dispatcher::runs_whole(const Task& task) const {
  if (task.pass != Pass::Backward) return false;
  if (!by_readiness()) return !separate_[tasks_.index(task.chunk, task.microbatch)];
  return !pipeline_.split_backward() && in_turn(task);
}

void Dispatcher::launch(const Task& task) {
  Entry& state = entry(task);
  const std::uint32_t position = tasks_.position(task.chunk);
  if (task.pass == Pass::Forward && source(position)) {
    admit(position, task.microbatch);
    unlaunched_[position].erase(
        policy_.hint().rank(Pass::Forward, tasks_.index(task.chunk, task.microbatch)));
    nominated_[position].remove(task.microbatch);
  }
  const bool whole = runs_whole(task);
  if (whole) state.flags |= kWhole;
  if (config_.record_decisions || config_.observer != nullptr) {
    const Decision decision = decision_on(task, state);
    if (config_.record_decisions) log_.append(decision);
    if (config_.observer != nullptr) config_.observer->launching(decision);
  }
  const bool forward_only = iteration_.kind == IterationKind::ForwardOnly;
  seams_.executor.launch({task, iteration_.index, state.slot, lane(task.pass), whole, forward_only});
  if (recording()) note_task(EventKind::Launched, task, whole, state.slot);
  asked_ = false;
  ++cursor_;
  ++unended_[static_cast<std::size_t>(lane(task.pass))];
  last_launched_[static_cast<std::size_t>(lane(task.pass))] = task;
  arbiter_.decided(task);
  if (by_readiness()) backpressure_.launched(task);
  note_launched(task, state);
}

void Dispatcher::note_launched(const Task& task, Entry& state) {
  const std::uint32_t position = tasks_.position(task.chunk);
  const bool whole = task.pass == Pass::Backward && (state.flags & kWhole) != 0;
  const bool forward_only = iteration_.kind == IterationKind::ForwardOnly;
  if (whole || task.pass == Pass::WeightGrad || forward_only) ++launched_pairs_;
  if ((whole || task.pass == Pass::WeightGrad) && !same_lane(Pass::Backward, Pass::WeightGrad)) {
    accumulating_[position] = {lane(task.pass), accumulating_[position].running + 1};
  }
  switch (task.pass) {
    case Pass::Forward:
      state.flags |= kForwardLaunched;
      peak_ = std::max(peak_, ++in_flight_);
      if (same_lane(Pass::Forward, Pass::Backward)) forward_available(task, state);
      break;
    case Pass::Backward:
      state.flags |= kBackwardLaunched;
      if (!same_lane(Pass::Backward, Pass::WeightGrad)) break;
      if (whole) {
        accumulated(position);
      } else {
        weight_grad_available(task, state);
      }
      break;
    case Pass::WeightGrad:
      if (same_lane(Pass::Backward, Pass::WeightGrad)) accumulated(position);
      break;
  }
}

Decision Dispatcher::decision_on(const Task& task, const Entry& state) const {
  Decision decision;
  decision.task = task;
  decision.iteration = iteration_.index;
  decision.at = seams_.clock.now();
  decision.slot = state.slot;
  decision.whole = (state.flags & kWhole) != 0 && task.pass == Pass::Backward;
  decision.focus = by_readiness() && arbiter_.focusing();
  for (std::size_t pass = 0; pass < kPasses; ++pass)
    decision.runnable[pass] = arbiter_.runnable(static_cast<Pass>(pass));
  decision.held_by_limit = held_by_limit();
  decision.held_by_order = held_by_order_;
  return decision;
}

std::uint32_t Dispatcher::held_by_limit() const {
  std::uint32_t held = 0;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    held += waiting_[position].size();
    // While anyone may come in, what a source has not launched is not held by the limit.
    if (!source(position) || !by_readiness() || backpressure_.open(position)) continue;
    held += unlaunched_[position].size() - (nominated_[position].best == Nominees::kNobody ? 0 : 1);
  }
  return held;
}

void Dispatcher::set_runnable(const Task& task, bool runnable) {
  if (runnable) {
    arbiter_.insert(task);
  } else {
    arbiter_.erase(task);
  }
  if (!by_readiness()) return;
  changes_.push_back({task, runnable});
  if (changes_.size() == kAnnounceAtOnce) announce();
}

void Dispatcher::announce() {
  if (changes_.empty()) return;
  seams_.agreement.announce(changes_);
  changes_.clear();
}

std::uint32_t Dispatcher::nominate(std::uint32_t position) const {
  if (unlaunched_[position].empty()) return Nominees::kNobody;
  if (nominees_hold_credits()) {
    const Microbatch next = next_nominee_[position];
    return next < tasks_.microbatches() && admits(position, next) ? next : Nominees::kNobody;
  }
  const Chunk chunk = tasks_.chunk_at(position);
  if (backpressure_.focusing()) {
    const std::optional<Task> focus = backpressure_.focus();
    if (!focus || focus->chunk != chunk || focus->pass != Pass::Forward) return Nominees::kNobody;
    return admits(position, focus->microbatch) ? focus->microbatch : Nominees::kNobody;
  }
  if (backpressure_.open(position)) {
    const Hint& hint = policy_.hint();
    return hint.task(hint.class_of(Pass::Forward), unlaunched_[position].first()).microbatch;
  }
  return nominate_oldest(position);
}

std::uint32_t Dispatcher::nominate_oldest(std::uint32_t position) const {
  if (unlaunched_[position].empty() || nominees_hold_credits() || backpressure_.focusing())
    return Nominees::kNobody;
  const Microbatch oldest = backpressure_.oldest(position);
  if (oldest == tasks_.microbatches() || !admits(position, oldest)) return Nominees::kNobody;
  const bool launched = (entries_[position * tasks_.microbatches() + oldest].flags & kForwardLaunched) != 0;
  return launched ? Nominees::kNobody : oldest;
}

void Dispatcher::refresh_sources() {
  constexpr std::uint32_t nobody = Nominees::kNobody;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    Nominees& current = nominated_[position];
    if (!source(position) || (nominees_hold_credits() && current.best != nobody)) continue;
    Nominees next{nominate(position), nominate_oldest(position)};
    if (next.oldest == next.best) next.oldest = nobody;
    if (nominees_hold_credits() && next.best != nobody) {
      backpressure_.admitted(position, next.best);
      ++next_nominee_[position];
    }
    const Chunk chunk = tasks_.chunk_at(position);
    for (const std::uint32_t each : {current.best, current.oldest}) {
      if (each != nobody && !next.contains(each)) set_runnable({each, chunk, Pass::Forward}, false);
    }
    for (const std::uint32_t each : {next.best, next.oldest}) {
      if (each != nobody && !current.contains(each)) set_runnable({each, chunk, Pass::Forward}, true);
    }
    current = next;
  }
}

}  // namespace sluice
