#include "scenario.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"

namespace sluice::test {
namespace {

using host::draws::bits;

bool flip(const Draw& draw) { return draw(0, 1) == 1; }

template <typename T>
void shuffle(std::vector<T>& items, const Draw& draw) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[draw(0, static_cast<std::uint32_t>(i) - 1)]);
}

/// Chunks on stages in any way, at most three a stage, with any edges from lower to higher chunks.
Pipeline draw_dag(const Draw& draw, Microbatch microbatches, bool split) {
  const std::uint32_t stages = draw(1, 5);
  std::vector<ChunkPlacement> chunks;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const std::uint32_t count = draw(1, 3);
    for (std::uint32_t i = 0; i < count; ++i)
      chunks.push_back({static_cast<StageId>(stage), split || draw(0, 3) > 0});
  }
  shuffle(chunks, draw);
  std::vector<Edge> edges;
  const std::uint32_t density = draw(1, 3);
  for (std::uint32_t to = 1; to < chunks.size(); ++to) {
    for (std::uint32_t from = 0; from < to; ++from) {
      if (draw(0, to) < density) edges.push_back({static_cast<Chunk>(from), static_cast<Chunk>(to)});
    }
  }
  shuffle(edges, draw);
  return {std::move(chunks), std::move(edges), microbatches, split};
}

/// The same pipeline, some of its chunks unsplittable.
Pipeline with_unsplittable_chunks(const Pipeline& pipeline, const Draw& draw) {
  std::vector<ChunkPlacement> chunks;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    chunks.push_back({pipeline.stage_of(static_cast<Chunk>(chunk)), flip(draw)});
  }
  return {
      std::move(chunks), {pipeline.edges().begin(), pipeline.edges().end()}, pipeline.microbatches(), false};
}

std::vector<Task> all_tasks(const Pipeline& pipeline, StageId stage, Pass pass) {
  std::vector<Task> tasks;
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    for (Microbatch m = 0; m < pipeline.microbatches(); ++m) tasks.push_back({m, chunk, pass});
  }
  return tasks;
}

Hint ranked(const Pipeline& pipeline, StageId stage, const Draw& draw,
            std::array<std::vector<Task>, kPasses> passes) {
  const RoundRule rule = flip(draw) ? RoundRule::Rounds : RoundRule::Priority;
  std::array<std::vector<Task>, Hint::kClasses> classes;
  if (draw(0, 3) == 0) {  // one class
    for (const auto& tasks : passes) classes[0].insert(classes[0].end(), tasks.begin(), tasks.end());
    shuffle(classes[0], draw);
    return {"mixed", pipeline, stage, rule, classes};
  }
  if (flip(draw)) std::swap(passes[0], passes[1]);
  if (draw(0, 3) == 0) std::swap(passes[draw(0, 1)], passes[2]);
  return {"drawn", pipeline, stage, rule, passes};
}

Hint draw_any_hint(const Draw& draw, const Pipeline& pipeline, StageId stage) {
  switch (draw(0, 3)) {
    case 0:
      return Hint::named(Hint::names()[draw(0, static_cast<std::uint32_t>(Hint::names().size()) - 1)],
                         pipeline, stage);
    case 1:
      return reversed_hint(pipeline, stage);
    case 2:
      return Hint::from_schedule(Schedule::gpipe(pipeline), pipeline, stage);
    default:
      return draw_hint(draw, pipeline, stage);
  }
}

std::vector<std::uint32_t> draw_limits(const Draw& draw, const Pipeline& pipeline) {
  const std::uint32_t kind = draw(0, 3);
  std::vector<std::uint32_t> limits;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const std::uint32_t least = chunks_on(pipeline, stage);
    switch (kind) {
      case 0:
        limits.push_back(least);
        break;
      case 1:
        limits.push_back(least + draw(0, 1));
        break;
      case 2:
        limits.push_back(least + pipeline.stages() - 1U - stage);
        break;
      default:
        limits.push_back(least + draw(0, 5));
        break;
    }
  }
  return limits;
}

}  // namespace

Draw seeded_draw(std::uint64_t seed) {
  return [random = std::make_shared<std::mt19937_64>(seed)](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>((*random)() % (high - low + 1));
  };
}

Draw rapidcheck_draw() {
  return [](std::uint32_t low, std::uint32_t high) { return *rc::gen::inRange(low, high + 1); };
}

Pipeline draw_pipeline(const Draw& draw, Shape shape) {
  const Microbatch microbatches = draw(1, 12);
  const bool split = flip(draw);
  const auto build = [&]() -> Pipeline {
    switch (shape) {
      case Shape::Chain:
        return Pipeline::chain(draw(1, 6), microbatches, split);
      case Shape::Interleaved:
        return Pipeline::interleaved(draw(1, 4), draw(2, 3), microbatches, split);
      case Shape::V:
        return Pipeline::v_shape(draw(1, 4), microbatches, split);
      case Shape::Joined: {
        std::vector<std::uint32_t> depths(draw(2, 3));
        for (std::uint32_t& depth : depths) depth = draw(1, 2);
        return Pipeline::joined(depths, draw(1, 2), microbatches, split);
      }
      default:
        return draw_dag(draw, microbatches, split);
    }
  };
  const Pipeline pipeline = build();
  return !split && draw(0, 2) == 0 ? with_unsplittable_chunks(pipeline, draw) : pipeline;
}

Hint draw_hint(const Draw& draw, const Pipeline& pipeline, StageId stage) {
  std::array<std::vector<Task>, kPasses> passes;
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    passes[pass] = all_tasks(pipeline, stage, static_cast<Pass>(pass));
    shuffle(passes[pass], draw);
  }
  return ranked(pipeline, stage, draw, std::move(passes));
}

Hint reversed_hint(const Pipeline& pipeline, StageId stage) {
  std::array<std::vector<Task>, Hint::kClasses> classes = {all_tasks(pipeline, stage, Pass::Backward),
                                                           all_tasks(pipeline, stage, Pass::Forward),
                                                           all_tasks(pipeline, stage, Pass::WeightGrad)};
  for (auto& tasks : classes) std::reverse(tasks.begin(), tasks.end());
  return {"reversed", pipeline, stage, RoundRule::Rounds, classes};
}

Scenario draw_scenario(const Draw& draw) {
  Pipeline pipeline = draw_pipeline(draw, static_cast<Shape>(draw(0, kShapes - 1)));
  Scenario scenario{std::move(pipeline), {}, {}};
  scenario.limits = draw_limits(draw, scenario.pipeline);
  for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
    scenario.hints.push_back(draw_any_hint(draw, scenario.pipeline, stage));
  }
  if (draw(0, 3) == 0) scenario.lanes[2] = Lane::WeightGrad;
  if (draw(0, 7) == 0) scenario.lanes[1] = Lane::Reduction;
  scenario.depth = draw(1, 3);
  scenario.iterations.clear();
  const std::uint32_t iterations = draw(1, 3);
  const std::uint32_t first = draw(0, 5);
  for (std::uint32_t i = 0; i < iterations; ++i) {
    scenario.iterations.push_back(
        {first + i, draw(0, 3) == 0 ? IterationKind::ForwardOnly : IterationKind::Training});
  }
  scenario.seed = draw(0, 1'000'000);
  scenario.longest_task = draw(0, 20);
  scenario.delay_bits = draw(0, 12);
  scenario.rules.mixed_at_limit = flip(draw);
  scenario.rules.weight_grad_makes_room = flip(draw);
  return scenario;
}

std::string describe(const Scenario& scenario) {
  const Pipeline& pipeline = scenario.pipeline;
  std::string text = std::to_string(pipeline.microbatches()) + " microbatches";
  if (pipeline.split_backward()) text += ", split";
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    text += "; stage " + std::to_string(stage) + ": limit " + std::to_string(scenario.limits[stage]) +
            ", hint " + scenario.hints[stage].name() + ", chunks";
    for (const Chunk chunk : pipeline.chunks_of(stage)) {
      text += " " + std::to_string(chunk) + (pipeline.splittable(chunk) ? "" : "u");
    }
  }
  text += "; edges";
  for (const Edge& edge : pipeline.edges())
    text += " " + std::to_string(edge.from) + ">" + std::to_string(edge.to);
  return text + "; depth " + std::to_string(scenario.depth) + ", lanes " +
         std::to_string(static_cast<int>(scenario.lanes[1])) +
         std::to_string(static_cast<int>(scenario.lanes[2])) + "; seed " + std::to_string(scenario.seed) +
         ", tasks up to " + std::to_string(scenario.longest_task) + ", delay bits " +
         std::to_string(scenario.delay_bits) + (scenario.rules.mixed_at_limit ? "" : ", one at a time") +
         (scenario.rules.weight_grad_makes_room ? ", W makes room" : "");
}

std::uint32_t chunks_on(const Pipeline& pipeline, StageId stage) {
  return static_cast<std::uint32_t>(pipeline.chunks_of(stage).size());
}

Duration task_time(const Scenario& scenario, std::uint64_t iteration, const Task& task) {
  const auto pass = static_cast<std::uint64_t>(task.pass);
  return Duration{bits({scenario.seed, 1, iteration, task.chunk, task.microbatch, pass}) %
                  (scenario.longest_task + 1)};
}

Duration message_delay(const Scenario& scenario, const MessageId& id) {
  const auto direction = static_cast<std::uint64_t>(id.direction);
  const std::uint64_t draw = bits({scenario.seed, 2, id.iteration, id.edge, id.microbatch, direction});
  const std::uint64_t bound = std::uint64_t{1} << (draw % (scenario.delay_bits + 1));
  return Duration{(draw >> 32U) % bound};
}

DispatcherConfig config_of(const Scenario& scenario, StageId stage) {
  DispatcherConfig config;
  config.rank = config.stage = stage;
  config.limit = scenario.limits[stage];
  config.rules = scenario.rules;
  config.lanes = scenario.lanes;
  config.record_decisions = true;
  return config;
}

sim::Surroundings surroundings_of(const Scenario& scenario) {
  return {[scenario](const Launch& launch) { return task_time(scenario, launch.iteration, launch.task); },
          [scenario](const sim::Transit& transit) { return message_delay(scenario, transit.id); },
          scenario.depth};
}

std::vector<sim::StageSetup> setups_of(const Scenario& scenario) {
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
    setups.push_back({config_of(scenario, stage), Policy::readiness(scenario.hints[stage])});
  }
  return setups;
}

std::vector<sim::StageSetup> replay_setups(const Scenario& scenario, const Record& record) {
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < scenario.pipeline.stages(); ++stage) {
    setups.push_back(
        {config_of(scenario, stage), Policy::replay(record.logs[stage], scenario.pipeline, stage)});
  }
  return setups;
}

std::vector<sim::StageSetup> fixed_setups(const Scenario& scenario, const Schedule& schedule) {
  std::vector<sim::StageSetup> setups;
  for (Policy& policy : Policy::fixed(schedule, scenario.pipeline, scenario.rules)) {
    const auto stage = static_cast<StageId>(setups.size());
    setups.push_back({config_of(scenario, stage), std::move(policy)});
  }
  return setups;
}

Record run(const Scenario& scenario, std::vector<sim::StageSetup> setups) {
  StaggeredWorld world(scenario.pipeline, std::move(setups), surroundings_of(scenario));
  return world.run(scenario.iterations);
}

Record run(const Scenario& scenario) { return run(scenario, setups_of(scenario)); }

bool deadlocks(const Scenario& scenario) {
  try {
    (void)run(scenario);
    return false;
  } catch (const StallError&) {
    return true;
  }
}

}  // namespace sluice::test
