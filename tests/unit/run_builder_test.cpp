#include "sluice/trace/run_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_world.hpp"
#include "sluice/error.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/trace/recording_json.hpp"
#include "tasks.hpp"

namespace sluice::trace {
namespace {

using namespace std::chrono_literals;
using test::RecordedWorld;

RecordedRun empty_run(Pipeline pipeline) {
  const std::size_t stages = pipeline.stages();
  return {"bf", std::move(pipeline), std::vector<std::uint32_t>(stages, 8)};
}

TEST(RunBuilder, ASimulatedRunIsCompleteWithItsTimes) {
  const Pipeline pipeline = Pipeline::chain(3, 5, true);
  const RecordedRun run = RecordedWorld{pipeline, "bfw", 32, {}, 2}.record();
  EXPECT_NO_THROW(check_complete(run));
  EXPECT_EQ(run.lost, 0U);
  ASSERT_EQ(run.iterations.size(), 2U);
  EXPECT_EQ(run.iterations[0].start, Time{0});
  EXPECT_EQ(run.iterations[1].start, run.iterations[0].end);
  EXPECT_EQ(run.tasks.size(), 2U * 3 * 5 * 3);
  EXPECT_EQ(run.messages.size(), 2U * 2 * 5 * 2);
  for (const RecordedMessage& each : run.messages)
    EXPECT_EQ(each.offered - each.sent, RecordedWorld::message_time(each.id));
  for (const RecordedTask& each : run.tasks) {
    EXPECT_EQ(each.duration(), Duration{1000}) << to_string(each.task);
    EXPECT_EQ(each.noticed, each.end);
    EXPECT_LT(each.slot, 32U);
  }
}

TEST(RunBuilder, NoticingLateIsOnRecord) {
  const RecordedRun run = RecordedWorld{Pipeline::chain(2, 3), "bf", 32, {}, 1, {Duration{50}, {}}}.record();
  for (const RecordedTask& each : run.tasks) EXPECT_EQ(each.noticed - each.end, Duration{50});
}

TEST(RunBuilder, DecisionsAreThoseOfTheDispatchers) {
  const RecordedRun run = RecordedWorld{Pipeline::chain(2, 4), "bf"}.record();
  ASSERT_EQ(run.decisions.size(), 2U);
  for (const auto& log : run.decisions) EXPECT_GE(log.size(), 8U);
  EXPECT_EQ(run.decisions[0][0].task, test::forward(0));
}

TEST(RunBuilder, WhatIsDroppedLeavesNoTrace) {
  RunBuilder builder(empty_run(Pipeline::chain(1, 1)));
  builder.recorder(0).record(Event::of(EventKind::Ran, Time{9}, 0, {}, false));
  builder.drop();
  builder.keep({1}, {});
  EXPECT_TRUE(builder.run().tasks.empty());
  EXPECT_TRUE(builder.run().iterations.empty());
}

TEST(RunBuilder, CountsLostEventsAndLeavesOutHalfMessages) {
  RunBuilder builder(empty_run(Pipeline::chain(2, 1)));
  Recorder& sender = builder.recorder(0);
  const MessageId id{1, 0, 0, Direction::Activation};
  sender.record(Event::of(EventKind::Sent, Time{5}, id));
  Recorder& receiver = builder.recorder(1);
  for (std::size_t i = 0; i < receiver.room() + 3; ++i)
    receiver.record(Event::of(EventKind::Arrived, Time{9}, id));
  builder.keep({1}, {});
  EXPECT_EQ(builder.run().lost, 3U);
  EXPECT_TRUE(builder.run().messages.empty());
}

TEST(RunBuilder, AMessageThatCameAnIterationEarlyIsPutTogether) {
  RunBuilder builder(empty_run(Pipeline::chain(2, 1)));
  const MessageId early{2, 0, 0, Direction::Activation};
  builder.recorder(0).record(Event::of(EventKind::Sent, Time{5}, early));
  builder.recorder(1).record(Event::of(EventKind::Offered, Time{6}, early));
  builder.keep({1}, {});
  builder.recorder(1).record(Event::of(EventKind::Accepted, Time{7}, early));
  builder.recorder(1).record(Event::of(EventKind::Arrived, Time{8}, early));
  builder.keep({2}, {});
  ASSERT_EQ(builder.run().messages.size(), 1U);
  EXPECT_EQ(builder.run().messages[0].id, early);
}

TEST(RunBuilder, ClocksReadOutOfOrderGiveTimesInOrder) {
  RunBuilder builder(empty_run(Pipeline::chain(2, 1)));
  const MessageId id{1, 0, 0, Direction::Activation};
  builder.recorder(0).record(Event::of(EventKind::Sent, Time{15}, id));
  builder.recorder(1).record({Time{10}, 0, 1, 0, 0, EventKind::IterationBegin, 0});
  for (const EventKind kind : {EventKind::Offered, EventKind::Accepted, EventKind::Arrived})
    builder.recorder(1).record(Event::of(kind, Time{14}, id));
  builder.keep({1}, {});
  const RecordedRun run = builder.run();
  ASSERT_EQ(run.messages.size(), 1U);
  EXPECT_EQ(run.messages[0].sent, Time{5});
  EXPECT_EQ(run.messages[0].arrived, Time{5});
}

TEST(RunBuilder, AWaitForTheGroupEndsWithTheNextLaunch) {
  RunBuilder builder(empty_run(Pipeline::chain(1, 2)));
  Recorder& recorder = builder.recorder(0);
  recorder.record({Time{0}, 0, 1, 0, 0, EventKind::IterationBegin, 0});
  recorder.record(Event::of(EventKind::Asked, Time{10}, 1, {0, 0, Pass::Forward}, false));
  recorder.record(Event::of(EventKind::Launched, Time{25}, 1, {1, 0, Pass::Forward}, false, 4));
  recorder.record(Event::of(EventKind::Launched, Time{30}, 1, {0, 0, Pass::Forward}, false, 5));
  builder.keep({1}, {});
  EXPECT_THAT(builder.run().agreements, ::testing::ElementsAre(RecordedAgreement{1, 0, Time{10}, Time{25}}));
}

/// What the simulator recorded, executed by threads.
TEST(RunBuilder, ALogOfTheSimulatorReplaysInTheRuntime) {
  for (const char* method : {"bf", "bfw", "1f1b"}) {
    const Pipeline pipeline = Pipeline::chain(3, 6, std::string(method) == "bfw");
    const RecordedRun run =
        read_recording(write_recording({"{}", {RecordedWorld{pipeline, method, 4, {}, 2}.record()}})).runs[0];
    host::Workload workload;
    workload.task_time = [](const Launch&) { return Duration(10us); };
    host::RunSettings options;
    options.limit = 4;
    options.record_decisions = true;
    host::ThreadedRun threads(
        run.pipeline,
        [&](StageId stage) { return Policy::replay(run.decisions[stage], run.pipeline, stage); },
        std::move(workload), options);
    for (const RecordedIteration& each : run.iterations) threads.run(each.iteration);
    for (StageId stage = 0; stage < 3; ++stage) {
      std::vector<Task> ran;
      for (const Decision& each : threads.log(stage).decisions()) ran.push_back(each.task);
      std::vector<Task> logged;
      for (const Decision& each : run.decisions[stage]) logged.push_back(each.task);
      EXPECT_EQ(ran, logged) << method << ", stage " << stage;
    }
  }
}

/// And the other way round.
TEST(RunBuilder, ALogOfTheRuntimeReplaysInTheSimulator) {
  const Pipeline pipeline = Pipeline::chain(3, 6);
  RunBuilder builder(empty_run(pipeline));
  host::Workload workload;
  workload.task_time = [](const Launch&) { return Duration(10us); };
  host::RunSettings options;
  options.limit = 8;
  options.record_decisions = true;
  options.recorders = builder.recorders();
  host::ThreadedRun threads(
      pipeline, [&](StageId stage) { return Policy::readiness(Hint::named("bf", pipeline, stage)); },
      std::move(workload), options);
  threads.run({7});
  std::vector<std::span<const Decision>> logs;
  for (StageId stage = 0; stage < 3; ++stage) logs.push_back(threads.log(stage).decisions());
  builder.keep({7}, logs);
  const RecordedRun run = builder.run();
  EXPECT_NO_THROW(check_complete(run));
  std::vector<sim::StageSetup> setups;
  for (StageId stage = 0; stage < 3; ++stage) {
    DispatcherConfig config;
    config.rank = config.stage = stage;
    config.limit = 8;
    config.record_decisions = true;
    setups.push_back({config, Policy::replay(run.decisions[stage], pipeline, stage)});
  }
  sim::World world(pipeline, std::move(setups), {[](const Launch&) { return Duration(10us); }});
  world.run({7});
  for (StageId stage = 0; stage < 3; ++stage) {
    const auto again = world.dispatcher(stage).log().decisions();
    ASSERT_EQ(again.size(), run.decisions[stage].size());
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].task, run.decisions[stage][i].task);
  }
}

TEST(ThreadedRun, RefusesAnotherNumberOfRecordersThanStages) {
  const Pipeline pipeline = Pipeline::chain(2, 1);
  Recorder recorder(4);
  host::RunSettings options;
  options.recorders = {&recorder};
  host::Workload workload;
  workload.task_time = [](const Launch&) { return Duration{1}; };
  EXPECT_THROW(
      host::ThreadedRun(
          pipeline, [&](StageId stage) { return Policy::readiness(Hint::named("bf", pipeline, stage)); },
          workload, options),
      ConfigError);
}

}  // namespace
}  // namespace sluice::trace
