#include "recorded_world.hpp"

#include <algorithm>

#include "sluice/trace/run_builder.hpp"

namespace sluice::test {
namespace {

bool is_schedule(std::string_view method) {
  return std::find(Schedule::names().begin(), Schedule::names().end(), method) != Schedule::names().end();
}

Duration task_time(const Launch& launch) {
  switch (launch.task.pass) {
    case Pass::Forward:
      return RecordedWorld::kForward;
    case Pass::Backward:
      return launch.whole ? RecordedWorld::kBackward : RecordedWorld::kBackward - RecordedWorld::kWeightGrad;
    case Pass::WeightGrad:
      return RecordedWorld::kWeightGrad;
  }
  return Duration{0};
}

}  // namespace

Duration RecordedWorld::message_time(const MessageId& id) {
  const std::uint64_t draw = id.microbatch * 7 + id.edge * 3 + static_cast<std::uint64_t>(id.direction);
  return Duration{100 + 900 * static_cast<Duration::rep>(draw % 5)};
}

trace::RecordedRun RecordedWorld::record() const {
  trace::RunBuilder builder({method, pipeline, std::vector<std::uint32_t>(pipeline.stages(), limit), rules});
  std::vector<Policy> policies;
  if (is_schedule(method)) {
    policies = Policy::fixed(Schedule::named(method, pipeline), pipeline, rules);
  } else {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage)
      policies.push_back(Policy::readiness(Hint::named(method, pipeline, stage)));
  }
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = limit;
    config.rules = rules;
    config.record_decisions = true;
    config.recorder = &builder.recorder(stage);
    setups.push_back({config, policies[stage]});
  }
  sim::World world(
      pipeline, std::move(setups),
      {task_time, [](const sim::Transit& transit) { return message_time(transit.id); }, 1, {}, overhead});
  for (std::uint64_t index = 1; index <= iterations; ++index) {
    world.run({index});
    std::vector<std::span<const Decision>> logs;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage)
      logs.push_back(world.dispatcher(stage).log().decisions());
    builder.keep({index}, logs);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) world.dispatcher(stage).log().clear();
  }
  return builder.run();
}

}  // namespace sluice::test
