#include "sluice/host/duration_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::host {
namespace {

using namespace std::chrono_literals;

std::string refusal(const std::string& text) {
  try {
    (void)DurationModel::parse(text);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "emulate");
    return error.what();
  }
  return "accepted";
}

TEST(DurationModel, ReadsAllKeysInAnyOrder) {
  const auto model = DurationModel::parse("sigma=0.25,w=7.5ms,b=0.02s,f=10000us");
  EXPECT_EQ(model.forward(), 10ms);
  EXPECT_EQ(model.backward(), 20ms);
  EXPECT_EQ(model.weight_grad(), 7500us);
  EXPECT_EQ(model.sigma(), 0.25);
}

TEST(DurationModel, DefaultsToHalfTheBackwardAndNoVariation) {
  const auto model = DurationModel::parse("f=900ns,b=3us");
  EXPECT_EQ(model.forward(), 900ns);
  EXPECT_EQ(model.weight_grad(), 1500ns);
  EXPECT_EQ(model.sigma(), 0);
}

TEST(DurationModel, AcceptsTheLargestValues) {
  const auto model = DurationModel::parse("f=600s,b=600s,w=599s,sigma=2");
  EXPECT_EQ(model.forward(), 10min);
  EXPECT_EQ(model.sigma(), 2);
}

TEST(DurationModel, RefusesMalformedTextAndNamesThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is empty"},
      {"f", "item 1 must be key=value"},
      {"f=10ms,,b=20ms", "item 2 must be key=value"},
      {"f=10ms,b=20ms,", "item 3 must be key=value"},
      {"=10ms,b=20ms", "unknown key `` in item 1"},
      {"f=10ms,b=20ms,x=1ms", "unknown key `x` in item 3"},
      {"F=10ms,b=20ms", "unknown key `F` in item 1"},
      {" f=10ms,b=20ms", "unknown key ` f` in item 1"},
      {"f=10ms,b=20ms,f=10ms", "`f` is given twice"},
      {"b=20ms", "`f` is missing"},
      {"f=10ms", "`b` is missing"},
      {"f=,b=20ms", "`f` needs a number"},
      {"f=ms,b=20ms", "`f` needs a number"},
      {"f=10,b=20ms", "`f` has no unit"},
      {"f=10m,b=20ms", "`f` has the unknown unit `m`"},
      {"f=10 ms,b=20ms", "`f` has the unknown unit ` ms`"},
      {"f=10msx,b=20ms", "`f` has the unknown unit `msx`"},
      {"f=0x10ms,b=20ms", "`f` has the unknown unit `x10ms`"},
      {"f=0ms,b=20ms", "`f` must be positive"},
      {"f=-1ms,b=20ms", "`f` must be positive"},
      {"f=0.1ns,b=20ms", "`f` must be at least 1 ns"},
      {"f=10ms,b=nanms", "`b` must be finite"},
      {"f=10ms,b=infs", "`b` must be finite"},
      {"f=10ms,b=1e400ms", "`b` is out of range"},
      {"f=10ms,b=1e300s", "`b` must be at most 10 minutes"},
      {"f=601s,b=20ms", "`f` must be at most 10 minutes"},
      {"f=10ms,b=20ms,w=20ms", "`w` is a part of `b`"},
      {"f=10ms,b=20ms,w=1s", "`w` is a part of `b`"},
      {"f=10ms,b=20ms,w=0ms", "`w` must be positive"},
      {"f=10ms,b=20ms,sigma=", "`sigma` needs a number"},
      {"f=10ms,b=20ms,sigma=-0.1", "`sigma` must lie in 0 to 2"},
      {"f=10ms,b=20ms,sigma=2.1", "`sigma` must lie in 0 to 2"},
      {"f=10ms,b=20ms,sigma=nan", "`sigma` must be finite"},
      {"f=10ms,b=20ms,sigma=1ms", "`sigma` is a plain number"},
      {std::string("f=10ms\0,b=20ms", 14), "`f` has the unknown unit `ms?`"},
      {"f=10ms\nb=20ms", "unknown unit `ms?b=20ms`"},
  };
  for (const auto& [text, reason] : cases) EXPECT_THAT(refusal(text), testing::HasSubstr(reason)) << text;
}

TEST(DurationModel, RefusalsStayOnOneShortLine) {
  const std::string message = refusal(std::string(100'000, '\n'));
  EXPECT_LT(message.size(), 200U);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(DurationModel, WithoutVariationGivesTheMeans) {
  const auto model = DurationModel::parse("f=10ms,b=20ms,w=8ms");
  EXPECT_EQ(model.draw(1, 2, {3, 0, Pass::Forward}, false, 1), 10ms);
  EXPECT_EQ(model.draw(1, 2, {3, 0, Pass::Backward}, true, 1), 20ms);
  EXPECT_EQ(model.draw(1, 2, {3, 0, Pass::Backward}, false, 1), 12ms);
  EXPECT_EQ(model.draw(1, 2, {3, 0, Pass::WeightGrad}, false, 1), 8ms);
}

TEST(DurationModel, AChunkTakesItsShareOfTheStage) {
  const auto model = DurationModel::parse("f=10ms,b=20ms,w=8ms");
  EXPECT_EQ(model.draw(1, 2, {3, 5, Pass::Forward}, false, 4), 2500us);
  EXPECT_EQ(model.draw(1, 2, {3, 5, Pass::Backward}, true, 4), 5ms);
}

TEST(DurationModel, WholeBackwardIsTheSumOfItsParts) {
  const auto model = DurationModel::parse("f=10ms,b=20ms,w=7ms,sigma=0.5");
  for (Microbatch m = 0; m < 1'000; ++m) {
    const Duration whole = model.draw(1, 2, {m, 3, Pass::Backward}, true, 3);
    const Duration split = model.draw(1, 2, {m, 3, Pass::Backward}, false, 3);
    const Duration weight_grad = model.draw(1, 2, {m, 3, Pass::WeightGrad}, false, 3);
    ASSERT_EQ(whole, split + weight_grad);
  }
}

TEST(DurationModel, DrawsRepeatAndDifferInEveryPartOfTheKey) {
  const auto model = DurationModel::parse("f=10ms,b=20ms,w=10ms,sigma=0.2");
  const Task task{5, 2, Pass::Forward};
  const Duration draw = model.draw(1, 7, task, false, 1);
  EXPECT_EQ(draw, DurationModel::parse("f=10ms,b=1s,sigma=0.2").draw(1, 7, task, false, 1));
  EXPECT_NE(draw, model.draw(2, 7, task, false, 1));
  EXPECT_NE(draw, model.draw(1, 8, task, false, 1));
  EXPECT_NE(draw, model.draw(1, 7, {6, 2, Pass::Forward}, false, 1));
  EXPECT_NE(draw, model.draw(1, 7, {5, 3, Pass::Forward}, false, 1));
  EXPECT_NE(draw, model.draw(1, 7, {5, 2, Pass::WeightGrad}, false, 1));
}

TEST(DurationModel, FactorIsLognormalWithMeanOne) {
  const auto model = DurationModel::parse("f=10ms,b=20ms,sigma=0.5");
  constexpr int draws = 100'000;
  double sum = 0;
  double logs = 0;
  double squared_logs = 0;
  for (Microbatch m = 0; m < draws; ++m) {
    const double factor =
        static_cast<double>(model.draw(42, 0, {m, 0, Pass::Forward}, false, 1).count()) / 1e7;
    sum += factor;
    logs += std::log(factor);
    squared_logs += std::log(factor) * std::log(factor);
  }
  const double mean_log = logs / draws;
  EXPECT_NEAR(sum / draws, 1, 0.007);  // four standard errors
  EXPECT_NEAR(mean_log, -0.125, 0.007);
  EXPECT_NEAR(std::sqrt(squared_logs / draws - mean_log * mean_log), 0.5, 0.005);
}

TEST(DurationModel, MadeFromTimesItIsTheParsedOne) {
  const DurationModel made({10e6, 20e6, 7e6}, 0.3);
  const auto parsed = DurationModel::parse("f=10ms,b=20ms,w=7ms,sigma=0.3");
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
    EXPECT_EQ(made.draw(3, 1, {5, 2, pass}, true, 1), parsed.draw(3, 1, {5, 2, pass}, true, 1));
  EXPECT_EQ(made.per_chunk(3).draw(3, 1, {5, 2, Pass::Forward}, false, 1),
            parsed.draw(3, 1, {5, 2, Pass::Forward}, false, 3));
}

TEST(DurationModel, TimesOutOfRangeAreRefusedNamingTheField) {
  const auto field_of = [](const DurationModel::Times& times, double sigma) -> std::string {
    try {
      (void)DurationModel(times, sigma);
    } catch (const ConfigError& error) {
      return error.field();
    }
    return "none";
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(field_of({0, 0, 0}, 0), "none");
  EXPECT_EQ(field_of({-1, 0, 0}, 0), "forward");
  EXPECT_EQ(field_of({nan, 0, 0}, 0), "forward");
  EXPECT_EQ(field_of({0, 6.1e11, 0}, 0), "backward");
  EXPECT_EQ(field_of({0, 10, -1}, 0), "weight-grad");
  EXPECT_EQ(field_of({0, 10, 11}, 0), "weight-grad");
  EXPECT_EQ(field_of({0, 10, 5}, 2.1), "sigma");
  EXPECT_EQ(field_of({0, 10, 5}, nan), "sigma");
}

TEST(DurationModel, ASizeMultipliesEveryPart) {
  const DurationModel model({10e6, 20e6, 8e6});
  EXPECT_EQ(model.draw(1, 1, {0, 0, Pass::Forward}, false, 1, 2.5), Duration{25'000'000});
  EXPECT_EQ(model.draw(1, 1, {0, 0, Pass::Backward}, false, 1, 2.5), Duration{30'000'000});
  EXPECT_EQ(model.draw(1, 1, {0, 0, Pass::Backward}, true, 1, 2.5), Duration{50'000'000});
}

TEST(DurationModel, ANormalFactorHasItsMeanAndDeviationAndStaysAboveZero) {
  const auto sample = [](double sigma) {
    const DurationModel model({1e6, 0, 0}, sigma, Spread::Normal);
    std::vector<double> factors;
    for (Microbatch m = 0; m < 20'000; ++m)
      factors.push_back(static_cast<double>(model.draw(1, 1, {m, 0, Pass::Forward}, false, 1).count()) / 1e6);
    return factors;
  };
  double sum = 0;
  double squares = 0;
  for (const double factor : sample(0.2)) {
    sum += factor;
    squares += (factor - 1) * (factor - 1);
  }
  EXPECT_NEAR(sum / 20'000, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 20'000), 0.2, 0.01);
  for (const double factor : sample(2)) ASSERT_GE(factor, 0);
}

TEST(DurationModel, TheLongestDrawOfTheLargestSizeFitsIntoADuration) {
  const DurationModel model({600e9, 600e9, 300e9}, 2);
  for (Microbatch m = 0; m < 2000; ++m)
    ASSERT_GE(model.draw(1, 1, {m, 0, Pass::Backward}, true, 1, DurationModel::kLargestSize), Duration{0});
}

}  // namespace
}  // namespace sluice::host
