#include "sluice/trace/recorded_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_world.hpp"
#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

using ::testing::HasSubstr;

RecordedRun recorded() { return test::RecordedWorld{Pipeline::chain(2, 3), "bf"}.record(); }

std::string refusal(const RecordedRun& run) {
  try {
    check_complete(run);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "complete";
}

TEST(RecordedRun, ARunIsCompleteUnlessSomethingIsMissing) {
  EXPECT_EQ(refusal(recorded()), "complete");
  RecordedRun run = recorded();
  const Task task = run.tasks.back().task;
  run.tasks.pop_back();
  EXPECT_THAT(refusal(run), HasSubstr(to_string(task)));
  run = recorded();
  const MessageId message = run.messages.front().id;
  run.messages.erase(run.messages.begin());
  EXPECT_THAT(refusal(run), HasSubstr(to_string(message)));
  run.iterations.clear();
  EXPECT_THAT(refusal(run), HasSubstr("iterations"));
}

TEST(RecordedRun, ASplitBackwardNeedsItsWeightGradient) {
  RecordedRun run = recorded();
  for (RecordedTask& each : run.tasks) each.whole = false;
  EXPECT_THAT(refusal(run), HasSubstr("W("));
}

TEST(RecordedRun, AnEvaluationNeedsItsForwardsOnly) {
  RecordedRun run = recorded();
  run.iterations[0].iteration.kind = IterationKind::ForwardOnly;
  std::erase_if(run.tasks, [](const RecordedTask& each) { return each.task.pass != Pass::Forward; });
  std::erase_if(run.messages,
                [](const RecordedMessage& each) { return each.id.direction == Direction::Gradient; });
  EXPECT_EQ(refusal(run), "complete");
}

TEST(RecordedRun, MessagesKnowTheirEnds) {
  const Pipeline pipeline = Pipeline::v_shape(2, 1);
  EXPECT_EQ(sender(pipeline, {0, 0, 0, Direction::Activation}), 0);
  EXPECT_EQ(receiver(pipeline, {0, 0, 0, Direction::Activation}), 1);
  EXPECT_EQ(sender(pipeline, {0, 0, 2, Direction::Gradient}), 0);
  EXPECT_EQ(receiver(pipeline, {0, 0, 2, Direction::Gradient}), 1);
  EXPECT_EQ(edge_name(pipeline, 2, Direction::Activation), "activations 2 -> 3");
  EXPECT_EQ(edge_name(pipeline, 2, Direction::Gradient), "gradients 3 -> 2");
}

TEST(RecordedRun, IsFoundByItsMethod) {
  Recording recording{"{}", {recorded(), recorded()}};
  recording.runs[1].method = "1f1b";
  EXPECT_EQ(&find_run(recording, ""), &recording.runs[0]);
  EXPECT_EQ(&find_run(recording, "1f1b"), &recording.runs[1]);
  EXPECT_THROW((void)find_run(recording, "gpipe"), ConfigError);
}

}  // namespace
}  // namespace sluice::trace
