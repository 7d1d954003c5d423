#include "gpu/row.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::microbench {
namespace {

Row measured(double value, std::optional<Goal> goal) {
  Row row;
  row.value = value;
  row.goal = goal;
  return row;
}

TEST(Spread, OfOneSampleIsThatSample) {
  const Spread spread = spread_of({7});
  EXPECT_EQ(spread.count, 1U);
  for (const double value : {spread.least, spread.median, spread.p99, spread.most}) EXPECT_EQ(value, 7);
}

TEST(Spread, OrdersTheSamples) {
  std::vector<double> samples;
  for (int i = 199; i >= 0; --i) samples.push_back(i);
  const Spread spread = spread_of(samples);
  EXPECT_EQ(spread.count, 200U);
  EXPECT_EQ(spread.least, 0);
  EXPECT_EQ(spread.median, 100);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.most, 199);
}

TEST(Row, IsJudgedByItsGoalOnARealDeviceOnly) {
  EXPECT_EQ(measured(3, Goal{3}).verdict(true), Verdict::Met);
  EXPECT_EQ(measured(3.01, Goal{3}).verdict(true), Verdict::NotMet);
  EXPECT_EQ(measured(-9, Goal{3}).verdict(true), Verdict::Met);
  EXPECT_EQ(measured(2, Goal{3}).verdict(false), Verdict::NotJudged);
  EXPECT_EQ(measured(2, {}).verdict(true), Verdict::NoGoal);
}

TEST(Row, MayBeJudgedByItsMagnitude) {
  EXPECT_EQ(measured(-4.9, Goal{5, true}).verdict(true), Verdict::Met);
  EXPECT_EQ(measured(-5.1, Goal{5, true}).verdict(true), Verdict::NotMet);
  EXPECT_EQ(measured(5.1, Goal{5, true}).verdict(true), Verdict::NotMet);
}

TEST(Row, WithoutAValueWasNotRunOrHasFailed) {
  Row row = not_run("put", "GB/s", "no library");
  EXPECT_EQ(row.verdict(true), Verdict::NotRun);
  EXPECT_EQ(row.reason, "no library");
  row.failed = true;
  EXPECT_EQ(row.verdict(false), Verdict::Failed);
}

TEST(Row, GoesUnchangedFromProcessToProcess) {
  Row row = median_row("gap", "us", {1, 2, 4}, Goal{3, true});
  row.subject = "Between two tasks";
  row.reference = 2.5;
  row.reference_name = "a copy";
  row.reason = "none";
  const auto copy = nlohmann::json(row).get<Row>();
  EXPECT_EQ(nlohmann::json(copy), nlohmann::json(row));
  EXPECT_EQ(copy.value, 2);
  ASSERT_TRUE(copy.goal.has_value());
  EXPECT_TRUE(copy.goal->of_magnitude);
  EXPECT_EQ(nlohmann::json(not_run("a", "b", "c")).get<Row>().verdict(true), Verdict::NotRun);
}

}  // namespace
}  // namespace sluice::microbench
