#include "sluice/host/delay_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

constexpr int kMessages = 50'000;

std::string refusal(const std::string& text) {
  try {
    (void)DelayModel::parse(text);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "jitter");
    return error.what();
  }
  return "accepted";
}

struct Sample {
  double frequency = 0;
  Duration least = Duration::max();
  Duration most{};
  double mean_ms = 0;  ///< of the messages that were late
};

Sample sample(const DelayModel& model, Duration compute_average) {
  Sample result;
  int late = 0;
  double sum_ms = 0;
  for (Microbatch m = 0; m < kMessages; ++m) {
    const Duration delay = model.draw(3, {1, m, 2, Direction::Gradient}, compute_average);
    if (delay == Duration::zero()) continue;
    ++late;
    sum_ms += std::chrono::duration<double, std::milli>(delay).count();
    result.least = std::min(result.least, delay);
    result.most = std::max(result.most, delay);
  }
  result.frequency = static_cast<double>(late) / kMessages;
  result.mean_ms = late > 0 ? sum_ms / late : 0;
  return result;
}

TEST(ComputeAverage, FollowsTheDigestsRecurrence) {
  ComputeAverage average;
  EXPECT_EQ(average.value(), 0ns);
  average.add(100ms);
  EXPECT_EQ(average.value(), 10ms);
  average.add(200ms);
  EXPECT_EQ(average.value(), 29ms);
  for (int i = 0; i < 500; ++i) average.add(40ms);
  EXPECT_EQ(average.value(), 40ms);
}

TEST(DelayModel, J0AndTheDefaultDelayNothing) {
  EXPECT_TRUE(DelayModel().none());
  EXPECT_TRUE(DelayModel::parse("j0").none());
  EXPECT_EQ(sample(DelayModel::parse("j0"), 1s).frequency, 0);
}

struct Level {
  std::string name;
  double probability;
  double base_ms;
  double alpha;
};

class DelayLevel : public testing::TestWithParam<Level> {};

TEST_P(DelayLevel, DelaysByTheBaseWhileComputeIsShorter) {
  const auto& [name, probability, base_ms, alpha] = GetParam();
  const Sample seen = sample(DelayModel::parse(name), 1ms);
  EXPECT_NEAR(seen.frequency, probability, 0.01);
  EXPECT_NEAR(seen.mean_ms, alpha * base_ms, 0.03 * alpha * base_ms);
  EXPECT_GE(seen.least / 1e6, 0.5ns * alpha * base_ms);
  EXPECT_LE(seen.most / 1e6, 1.5ns * alpha * base_ms);
}

TEST_P(DelayLevel, DelaysByTheComputeAverageWhereItIsLonger) {
  const auto& [name, probability, base_ms, alpha] = GetParam();
  const Sample seen = sample(DelayModel::parse(name), 80ms);
  EXPECT_NEAR(seen.mean_ms, alpha * 80, 0.03 * alpha * 80);
}

INSTANTIATE_TEST_SUITE_P(Paper, DelayLevel,
                         testing::Values(Level{"j1", 0.1, 5, 0.5}, Level{"j2", 0.2, 10, 1.0},
                                         Level{"j3", 0.3, 15, 1.5}),
                         [](const auto& level) { return level.param.name; });

TEST(DelayModel, TailHasItsFrequencyAndMeanWhateverTheComputeTime) {
  const auto model = DelayModel::parse("tail:0.3,10");
  EXPECT_FALSE(model.none());
  const Sample seen = sample(model, 1ms);
  EXPECT_NEAR(seen.frequency, 0.3, 0.01);
  EXPECT_NEAR(seen.mean_ms, 10, 0.4);
  EXPECT_GT(seen.most, 60ms);
  EXPECT_EQ(sample(model, 500ms).mean_ms, seen.mean_ms);
}

TEST(DelayModel, TailAcceptsItsBounds) {
  EXPECT_TRUE(DelayModel::parse("tail:0,10").none());
  EXPECT_EQ(sample(DelayModel::parse("tail:1,1"), 1ms).frequency, 1);
  EXPECT_EQ(sample(DelayModel::parse("tail:1,0"), 1ms).frequency, 0);
  EXPECT_GT(sample(DelayModel::parse("tail:0.5,600000"), 1ms).mean_ms, 590'000);
}

TEST(DelayModel, DrawsRepeatAndDifferInEveryPartOfTheKey) {
  const auto model = DelayModel::parse("tail:1,10");
  const MessageId id{4, 5, 2, Direction::Activation};
  const Duration draw = model.draw(1, id, 1ms);
  EXPECT_EQ(draw, DelayModel::parse("tail:1,10").draw(1, id, 2ms));
  EXPECT_NE(draw, model.draw(2, id, 1ms));
  EXPECT_NE(draw, model.draw(1, {5, 5, 2, Direction::Activation}, 1ms));
  EXPECT_NE(draw, model.draw(1, {4, 6, 2, Direction::Activation}, 1ms));
  EXPECT_NE(draw, model.draw(1, {4, 5, 3, Direction::Activation}, 1ms));
  EXPECT_NE(draw, model.draw(1, {4, 5, 2, Direction::Gradient}, 1ms));
}

TEST(DelayModel, ALevelBesideATailAddsToIt) {
  const auto tail = DelayModel::parse("tail:0.3,10");
  const auto both = DelayModel::parse("tail:0.3,10+j2");
  EXPECT_FALSE(tail.uses_average());
  EXPECT_TRUE(both.uses_average());
  const Sample of_tail = sample(tail, 80ms);
  const Sample of_both = sample(both, 80ms);
  // Independent of each other: 1 - 0.7 * 0.8 of the messages are late.
  EXPECT_NEAR(of_both.frequency, 0.44, 0.02);
  EXPECT_NEAR(of_both.mean_ms * of_both.frequency, of_tail.mean_ms * of_tail.frequency + 0.2 * 80, 1);
  for (Microbatch m = 0; m < 100; ++m) {
    const MessageId id{0, m, 0, Direction::Activation};
    EXPECT_GE(both.draw(1, id, 80ms), tail.draw(1, id, 80ms));
  }
}

TEST(DelayModel, RefusesMalformedText) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "must be j0, j1, j2, j3 or tail:p,mean"},
      {"j", "must be j0"},
      {"j4", "must be j0"},
      {"J1", "must be j0"},
      {"j1 ", "must be j0"},
      {"j11", "must be j0"},
      {"tail", "must be j0"},
      {"tail:", "no comma"},
      {"tail:0.3", "no comma"},
      {"tail:,10", "p of `tail:p,mean` must be a number"},
      {"tail:x,10", "p of `tail:p,mean` must be a number"},
      {"tail:0.3 ,10", "p of `tail:p,mean` must be a number"},
      {"tail:1.01,10", "p of `tail:p,mean` must lie in 0 to 1"},
      {"tail:-0.1,10", "p of `tail:p,mean` must lie in 0 to 1"},
      {"tail:nan,10", "p of `tail:p,mean` must lie in 0 to 1"},
      {"tail:0.3,", "mean of `tail:p,mean` must be a number"},
      {"tail:0.3,10ms", "mean of `tail:p,mean` must be a number"},
      {"tail:0.3,10,4", "mean of `tail:p,mean` must be a number"},
      {"tail:0.3,1e400", "mean of `tail:p,mean` must be a number"},
      {"tail:0.3,-10", "mean of `tail:p,mean` must lie in 0 to 600000"},
      {"tail:0.3,nan", "mean of `tail:p,mean` must lie in 0 to 600000"},
      {"tail:0.3,inf", "mean of `tail:p,mean` must lie in 0 to 600000"},
      {"tail:0.3,600001", "mean of `tail:p,mean` must lie in 0 to 600000"},
      {"j1\nj2", "not `j1?j2`"},
      {"tail:0.3,10+", "mean of `tail:p,mean` must be a number"},
      {"tail:0.3,10+j4", "must be j0"},
      {"tail:0.3,10+j1+j2", "must be j0"},
      {"j1+tail:0.3,10", "must be j0"},
  };
  for (const auto& [text, reason] : cases) EXPECT_THAT(refusal(text), testing::HasSubstr(reason)) << text;
}

TEST(DelayModel, OnlyTheLevelsGoByTheComputeAverage) {
  EXPECT_TRUE(DelayModel::parse("j1").uses_average());
  EXPECT_FALSE(DelayModel::parse("j0").uses_average());
  EXPECT_FALSE(DelayModel::parse("tail:0.3,10").uses_average());
}

}  // namespace
}  // namespace sluice::host
