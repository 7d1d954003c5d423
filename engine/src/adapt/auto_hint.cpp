#include "sluice/adapt/auto_hint.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::adapt {
namespace {

using Classes = std::array<std::vector<Task>, Hint::kClasses>;

/// Every round tries the candidates on twice as many iterations of resampled times as the one before, and
/// the faster half of them goes on.
constexpr std::uint64_t kRounds = 4;
constexpr std::uint64_t kFirstTrials = 3;
/// Tasks that a ranking simulates at most, as long as each candidate is tried once a round.
constexpr std::uint64_t kMostSimulated = 8'000'000;
/// In average tasks: smaller changes of an average do not ask for a new ranking.
constexpr double kDrift = 0.5;
std::uint64_t draw(std::uint64_t trial, Microbatch microbatch) { return (trial << 32U) | microbatch; }

/// Tasks of one pass as BF ranks them.
std::vector<Task> ranked(const Pipeline& pipeline, StageId stage, Pass pass) {
  const Hint hint = Hint::named("bf", pipeline, stage);
  const std::uint32_t cls = hint.class_of(pass);
  std::vector<Task> tasks;
  tasks.reserve(hint.class_size(cls));
  for (std::uint32_t rank = 0; rank < hint.class_size(cls); ++rank) tasks.push_back(hint.task(cls, rank));
  return tasks;
}

/// Tasks of one pass in the order a schedule has them; a whole backward counts as both its parts.
std::vector<Task> in_schedule_order(std::span<const Task> order, Pass pass) {
  std::set<Task> split;
  for (const Task& task : order) {
    if (task.pass == Pass::WeightGrad) split.insert({task.microbatch, task.chunk, Pass::Backward});
  }
  std::vector<Task> tasks;
  for (const Task& task : order) {
    if (task.pass == pass) tasks.push_back(task);
    const bool whole = task.pass == Pass::Backward && !split.contains(task);
    if (whole && pass == Pass::WeightGrad) tasks.push_back({task.microbatch, task.chunk, pass});
  }
  return tasks;
}

/// Averages along the pipeline, in nanoseconds.
class CriticalPath {
 public:
  CriticalPath(const Pipeline& pipeline, const Measurements& measured)
      : pipeline_(pipeline), measured_(measured), backward_(pipeline.chunks()), forward_(pipeline.chunks()) {
    for (std::uint32_t at = 0; at < pipeline.chunks(); ++at) {
      const auto chunk = static_cast<Chunk>(at);
      double after = time(chunk, Pass::WeightGrad);
      for (const EdgeId id : pipeline.in_edges(chunk)) {
        after = std::max(after, message(id, Direction::Gradient) + backward_[pipeline.edges()[id].from]);
      }
      backward_[chunk] = time(chunk, Pass::Backward) + after;
    }
    for (std::uint32_t at = pipeline.chunks(); at-- > 0;) {
      const auto chunk = static_cast<Chunk>(at);
      double after = backward_[chunk];
      for (const EdgeId id : pipeline.out_edges(chunk)) {
        after = std::max(after, message(id, Direction::Activation) + forward_[pipeline.edges()[id].to]);
      }
      forward_[chunk] = time(chunk, Pass::Forward) + after;
    }
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      double busy = 0;
      for (const Chunk chunk : pipeline.chunks_of(stage)) {
        for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) busy += time(chunk, pass);
      }
      period_ = std::max(period_, busy);
    }
  }

  /// When the task starts at the latest if microbatch m has left the pipeline after m periods of the slowest
  /// stage. A weight gradient may wait until its slot is needed by a later forward.
  /// @param limit microbatches in flight on the stage
  [[nodiscard]] double latest_start(const Task& task, std::uint32_t limit) const {
    const double leaves = task.microbatch * period_;
    switch (task.pass) {
      case Pass::Forward:
        return leaves - forward_[task.chunk];
      case Pass::Backward:
        return leaves - backward_[task.chunk];
      case Pass::WeightGrad:
        break;
    }
    const double shared = std::max<double>(1, static_cast<double>(limit) / chunks_beside(task.chunk));
    return leaves + shared * period_ - forward_[task.chunk] - time(task.chunk, Pass::WeightGrad);
  }

 private:
  [[nodiscard]] double time(Chunk chunk, Pass pass) const {
    return static_cast<double>(measured_.task(chunk, pass).count());
  }
  [[nodiscard]] double message(EdgeId edge, Direction direction) const {
    return static_cast<double>(measured_.message(edge, direction).count());
  }
  [[nodiscard]] double chunks_beside(Chunk chunk) const {
    return static_cast<double>(pipeline_.chunks_of(pipeline_.stage_of(chunk)).size());
  }

  const Pipeline& pipeline_;
  const Measurements& measured_;
  /// From the start of a chunk's pass to the end of the microbatch.
  std::vector<double> backward_;
  std::vector<double> forward_;
  double period_ = 0;
};

}  // namespace

AutoHint::AutoHint(const Pipeline& pipeline, std::vector<DispatcherConfig> configs, std::uint32_t depth,
                   sim::GroupSettings group)
    : pipeline_(pipeline), configs_(std::move(configs)), depth_(depth), group_(group) {
  collect_candidates();
  hints_ = candidates_.front().hints;
  chosen_ = candidates_.front().name;
}

void AutoHint::collect_candidates() {
  const auto add = [this](const std::string& name, RoundRule rule, const auto& classes_of) {
    Candidate candidate{name, {}};
    for (StageId stage = 0; stage < pipeline_.stages(); ++stage)
      candidate.hints.emplace_back("auto:" + name, pipeline_, stage, rule, classes_of(stage));
    candidates_.push_back(std::move(candidate));
  };
  const auto f = [this](StageId stage) { return ranked(pipeline_, stage, Pass::Forward); };
  const auto b = [this](StageId stage) { return ranked(pipeline_, stage, Pass::Backward); };
  const auto w = [this](StageId stage) { return ranked(pipeline_, stage, Pass::WeightGrad); };
  add("bfw", RoundRule::Rounds, [&](StageId s) { return Classes{b(s), f(s), w(s)}; });
  add("fbw", RoundRule::Rounds, [&](StageId s) { return Classes{f(s), b(s), w(s)}; });
  add("b-priority", RoundRule::Priority, [&](StageId s) { return Classes{b(s), f(s), w(s)}; });
  add("f-priority", RoundRule::Priority, [&](StageId s) { return Classes{f(s), b(s), w(s)}; });
  add("b-w-f", RoundRule::Priority, [&](StageId s) { return Classes{b(s), w(s), f(s)}; });
  add("w-b-f", RoundRule::Priority, [&](StageId s) { return Classes{w(s), b(s), f(s)}; });
  Candidate pace{"pace", {}};
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage)
    pace.hints.push_back(Hint::pace(pipeline_, stage));
  candidates_.push_back(std::move(pace));
  for (const std::string_view name : Schedule::names()) {
    if (name == "gpipe") continue;
    std::optional<Schedule> schedule;
    try {
      schedule = Schedule::named(name, pipeline_);
    } catch (const ConfigError&) {
      continue;  // made for another pipeline
    }
    const auto ordered = [&](StageId s, Pass pass) { return in_schedule_order(schedule->order(s), pass); };
    add("rounds of " + std::string(name), RoundRule::Rounds, [&](StageId s) {
      return Classes{ordered(s, Pass::Backward), ordered(s, Pass::Forward), ordered(s, Pass::WeightGrad)};
    });
    Candidate candidate{std::string(name), {}};
    for (StageId stage = 0; stage < pipeline_.stages(); ++stage)
      candidate.hints.push_back(Hint::from_schedule(*schedule, pipeline_, stage));
    candidates_.push_back(std::move(candidate));
  }
  // The critical path's, once something is measured.
  candidates_.push_back(candidates_.front());
}

bool AutoHint::update(const Measurements& measured) {
  if (!measured.complete()) return false;
  if (last_ && measured.drift_since(*last_) < kDrift) return false;
  last_ = measured;
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    DispatcherConfig config = configs_[stage];
    config.record_decisions = false;
    config.recorder = nullptr;
    setups.push_back({config, Policy::readiness(hints_[stage])});
  }
  sim::World world(pipeline_, std::move(setups), measured_surroundings());
  candidates_.back() = by_critical_path();
  const std::string before = chosen_;
  const Candidate& best = fastest(world);
  hints_ = best.hints;
  chosen_ = best.name;
  return chosen_ != before;
}

sim::Surroundings AutoHint::measured_surroundings() const {
  sim::Surroundings surroundings;
  surroundings.depth = depth_;
  surroundings.group = group_;
  surroundings.overhead.task = last_->notice();
  surroundings.task_time = [this](const Launch& launch) {
    return last_->task(launch.task.chunk, launch.task.pass, draw(launch.iteration, launch.task.microbatch));
  };
  surroundings.message_delay = [this](const sim::Transit& transit) {
    return last_->message(transit.id.edge, transit.id.direction,
                          draw(transit.id.iteration, transit.id.microbatch));
  };
  return surroundings;
}

AutoHint::Candidate AutoHint::by_critical_path() const {
  const CriticalPath path(pipeline_, *last_);
  Candidate candidate{"critical path", {}};
  for (StageId stage = 0; stage < pipeline_.stages(); ++stage) {
    const std::uint32_t limit = configs_[stage].limit;
    std::vector<std::pair<double, Task>> starts;
    for (const auto& tasks :
         {ranked(pipeline_, stage, Pass::Forward), ranked(pipeline_, stage, Pass::Backward),
          ranked(pipeline_, stage, Pass::WeightGrad)}) {
      for (const Task& task : tasks) starts.emplace_back(path.latest_start(task, limit), task);
    }
    std::sort(starts.begin(), starts.end());
    std::vector<Task> order;
    order.reserve(starts.size());
    for (const auto& [start, task] : starts) order.push_back(task);
    candidate.hints.emplace_back("auto:critical path", pipeline_, stage, RoundRule::Priority,
                                 Classes{std::move(order), {}, {}});
  }
  return candidate;
}

const AutoHint::Candidate& AutoHint::fastest(sim::World& world) const {
  struct Runner {
    const Candidate* candidate;
    double total_ns = 0;
  };
  std::vector<Runner> runners;
  for (const Candidate& candidate : candidates_) runners.push_back({&candidate});
  const std::uint64_t tasks =
      std::uint64_t{pipeline_.chunks()} * pipeline_.microbatches() * kPasses * group_.size;
  const std::uint64_t affordable = kMostSimulated / (kRounds * tasks * runners.size());
  std::uint64_t more = std::clamp<std::uint64_t>(affordable, 1, kFirstTrials);
  std::uint64_t trial = 0;
  for (std::uint64_t round = 0; round < kRounds && runners.size() > 1; ++round) {
    for (Runner& runner : runners) {
      for (StageId stage = 0; stage < pipeline_.stages(); ++stage)
        world.rank_by(stage, runner.candidate->hints[stage]);
      for (std::uint64_t i = 0; i < more; ++i)
        runner.total_ns += static_cast<double>(world.run({trial + i, IterationKind::Training}).count());
    }
    trial += more;
    more *= 2;
    std::stable_sort(runners.begin(), runners.end(),
                     [](const Runner& x, const Runner& y) { return x.total_ns < y.total_ns; });
    runners.resize((runners.size() + 1) / 2);
  }
  return *runners.front().candidate;
}

}  // namespace sluice::adapt
