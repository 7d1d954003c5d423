#include "sluice/hint.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sluice/error.hpp"
#include "tasks.hpp"

namespace sluice::test {
namespace {

const Pipeline kOne = Pipeline::chain(1, 1);

std::string refusal(const std::array<std::vector<Task>, Hint::kClasses>& classes) {
  try {
    (void)Hint("mine", kOne, 0, RoundRule::Rounds, classes);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "hint");
    return error.what();
  }
  return "accepted";
}

Tasks listed(const Hint& hint, std::uint32_t cls) {
  Tasks tasks;
  for (std::uint32_t rank = 0; rank < hint.class_size(cls); ++rank) tasks.push_back(hint.task(cls, rank));
  return tasks;
}

TEST(Hint, ForwardsPreferTheLowerChunkBackwardsTheHigherTiesTheLowerMicrobatch) {
  const Hint hint = Hint::named("bf", Pipeline::interleaved(2, 2, 2), 1);
  EXPECT_EQ(listed(hint, 0), (Tasks{backward(0, 3), backward(1, 3), backward(0, 1), backward(1, 1)}));
  EXPECT_EQ(listed(hint, 1), (Tasks{forward(0, 1), forward(1, 1), forward(0, 3), forward(1, 3)}));
  EXPECT_EQ(hint.class_of(Pass::WeightGrad), 2U);
}

TEST(Hint, NamesDifferInRuleAndFirstClass) {
  const auto form = [](std::string_view name) {
    const Hint hint = Hint::named(name, kOne, 0);
    return std::pair(hint.rule(), hint.class_of(Pass::Forward));
  };
  EXPECT_EQ(form("bf"), std::pair(RoundRule::Rounds, 1U));
  EXPECT_EQ(form("bfw"), std::pair(RoundRule::Rounds, 1U));
  EXPECT_EQ(form("fb"), std::pair(RoundRule::Rounds, 0U));
  EXPECT_EQ(form("b-priority"), std::pair(RoundRule::Priority, 1U));
  EXPECT_EQ(form("f-priority"), std::pair(RoundRule::Priority, 0U));
}

Tasks without_weight_grads(std::span<const Task> order) {
  Tasks tasks(order.begin(), order.end());
  std::erase_if(tasks, [](const Task& task) { return task.pass == Pass::WeightGrad; });
  return tasks;
}

TEST(Pace, OfALoopIsTheOrderOfInterleaved1F1B) {
  for (const std::uint32_t chunks : {1U, 2U, 3U}) {
    const Pipeline pipeline = Pipeline::interleaved(4, chunks, 10);
    const Schedule schedule = Schedule::interleaved(pipeline);
    for (StageId stage = 0; stage < 4; ++stage) {
      const Hint hint = Hint::pace(pipeline, stage);
      EXPECT_EQ(listed(hint, 0), without_weight_grads(schedule.order(stage))) << chunks << " " << stage;
      EXPECT_EQ(hint.class_of(Pass::WeightGrad), 1U);
      EXPECT_EQ(hint.rule(), RoundRule::Priority);
    }
  }
}

TEST(Pace, OfAVFollowsTheWayDownAndBack) {
  const Hint hint = Hint::pace(Pipeline::v_shape(2, 2), 0);  // chunks 0 and 3
  // A microbatch enters every 6 hops; it reaches chunk 3 after 3, turns, and is back at chunk 0 after 10.
  EXPECT_EQ(listed(hint, 0), (Tasks{forward(0, 0), forward(0, 3), backward(0, 3), forward(1, 0),
                                    forward(1, 3), backward(1, 3), backward(0, 0), backward(1, 0)}));
}

TEST(Pace, OfAGraphGoesByTheLongestWay) {
  const std::array<std::uint32_t, 2> depths{2, 1};
  const Hint hint = Hint::pace(Pipeline::joined(depths, 1, 3), 2);  // the short encoder
  EXPECT_EQ(listed(hint, 0), (Tasks{forward(0, 2), forward(1, 2), backward(0, 2), forward(2, 2),
                                    backward(1, 2), backward(2, 2)}));
}

TEST(Hint, RankAndTaskAreInverse) {
  const Pipeline pipeline = Pipeline::v_shape(2, 5);
  const StageTasks tasks(pipeline, 1);
  for (const std::string_view name : Hint::names()) {
    const Hint hint = Hint::named(name, pipeline, 1);
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
      for (std::uint32_t index = 0; index < tasks.size(); ++index) {
        EXPECT_EQ(hint.task(hint.class_of(pass), hint.rank(pass, index)), tasks.task(pass, index));
      }
    }
  }
}

TEST(Hint, FromScheduleFollowsTheScheduleAndPutsMissingWeightGradsLast) {
  const Pipeline pipeline = Pipeline::chain(1, 2);
  const Hint hint = Hint::from_schedule(Schedule::one_f_one_b(pipeline), pipeline, 0);
  EXPECT_EQ(listed(hint, 0),
            (Tasks{forward(0), backward(0), forward(1), backward(1), weight_grad(0), weight_grad(1)}));
  EXPECT_EQ(hint.rule(), RoundRule::Priority);
  EXPECT_EQ(hint.name(), "1f1b");
}

TEST(HintErrors, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)Hint::named("fastest", kOne, 0);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "hint: 'fastest' is not one of bf, fb, b-priority, f-priority, bfw, pace");
  }
}

TEST(HintErrors, NameTheTask) {
  EXPECT_EQ(refusal({Tasks{backward(0)}, Tasks{forward(0)}, Tasks{weight_grad(0)}}), "accepted");
  EXPECT_EQ(refusal({Tasks{backward(0), weight_grad(0), forward(0)}, {}, {}}), "accepted");
  EXPECT_EQ(refusal({Tasks{backward(0)}, Tasks{}, Tasks{weight_grad(0)}}),
            "hint: F(chunk 0, microbatch 0) is not ranked");
  EXPECT_EQ(refusal({Tasks{backward(0), backward(0)}, {}, {}}),
            "hint: B(chunk 0, microbatch 0) is ranked twice");
  EXPECT_EQ(refusal({Tasks{backward(1)}, {}, {}}), "hint: B(chunk 0, microbatch 1) is not a task of stage 0");
}

TEST(HintErrors, APassInTwoClassesIsRefused) {
  const Pipeline pipeline = Pipeline::chain(1, 2);
  try {
    (void)Hint("mine", pipeline, 0, RoundRule::Rounds, {Tasks{forward(0)}, Tasks{forward(1)}, {}});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "hint: pass F is ranked in two classes");
  }
}

}  // namespace
}  // namespace sluice::test
