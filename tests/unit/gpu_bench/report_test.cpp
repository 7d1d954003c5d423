#include "gpu/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFake = "THE DEVICE IS THE FAKE ONE";

Report sample(bool real) {
  Report report;
  report.device = {"Some device", "9.0", 13000, 12050, std::uint64_t{1} << 30U, real};
  report.checks = {{"cuda_tests", "passed", "12 tests"}, {"nccl_tests", "not run", "there is no NCCL"}};
  Row gap = median_row("gap", "us", {1, 2, 3}, Goal{3});
  gap.subject = "Between two tasks";
  Row put = not_run("put", "GB/s", "too old");
  put.subject = "Putting";
  report.rows = {gap, put};
  return report;
}

/// A file of checks that goes away with the test.
class ChecksFile {
 public:
  explicit ChecksFile(const std::string& text) : path_(::testing::TempDir() + "sluice_checks.tsv") {
    std::ofstream(path_) << text;
  }
  ~ChecksFile() { std::remove(path_.c_str()); }
  ChecksFile(const ChecksFile&) = delete;
  ChecksFile& operator=(const ChecksFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string refusal_of(const std::string& path) {
  try {
    static_cast<void>(read_checks(path));
    return "accepted";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Report, IsGoodWhileNothingFailedAndNoGoalWasMissed) {
  EXPECT_TRUE(sample(true).good());
  Report failed = sample(true);
  failed.checks[0].outcome = "failed";
  EXPECT_FALSE(failed.good());
  Report missed = sample(true);
  missed.rows[0].value = 3.5;
  EXPECT_FALSE(missed.good());
  missed.device.real = false;
  EXPECT_TRUE(missed.good()) << "a fake device has no figures";
  missed.device.real = true;
  missed.quick = true;
  EXPECT_TRUE(missed.good()) << "quick measurements are too few for figures";
  EXPECT_EQ(to_json(missed).at("rows")[0].at("verdict"), "not judged");
  EXPECT_THAT(to_text(missed), HasSubstr("not judged"));
  missed.rows[0].failed = true;
  EXPECT_FALSE(missed.good());
}

TEST(Report, ListsWhatWasNotRunApart) {
  const std::string text = to_text(sample(true));
  const std::string left = text.substr(text.find("Not run, which is not a pass"));
  EXPECT_THAT(left, HasSubstr("nccl_tests: there is no NCCL"));
  EXPECT_THAT(left, HasSubstr("Putting, put: too old"));
  EXPECT_THAT(left, Not(HasSubstr("cuda_tests")));
  EXPECT_THAT(text, HasSubstr("driver for CUDA 13.0, runtime 12.5"));
}

TEST(Report, SaysLoudlyThatADeviceIsNoDevice) {
  EXPECT_THAT(to_text(sample(false)), HasSubstr(kFake));
  EXPECT_THAT(to_markdown(sample(false)), HasSubstr(kFake));
  EXPECT_THAT(to_text(sample(true)), Not(HasSubstr(kFake)));
  EXPECT_FALSE(to_json(sample(false)).at("figures_count").get<bool>());
  EXPECT_TRUE(to_json(sample(true)).at("figures_count").get<bool>());
  Report quick = sample(true);
  quick.quick = true;
  EXPECT_FALSE(to_json(quick).at("figures_count").get<bool>());
  EXPECT_FALSE(quick.figures_count());
}

TEST(Report, HasEveryRowInItsTablesAndJson) {
  const nlohmann::json json = to_json(sample(true));
  ASSERT_EQ(json.at("rows").size(), 2U);
  EXPECT_EQ(json["rows"][0].at("verdict"), "met");
  EXPECT_EQ(json["rows"][0].at("samples").at("median"), 2);
  EXPECT_EQ(json["rows"][1].at("verdict"), "not run");
  EXPECT_EQ(json.at("checks")[1].at("outcome"), "not run");
  const std::string page = to_markdown(sample(true));
  EXPECT_THAT(page, HasSubstr("| gap | 2.00 | us | 3.00 |  | <= 3 | met |"));
  EXPECT_THAT(page, HasSubstr("| put |  | GB/s |  |  |  | not run: too old |"));
  EXPECT_THAT(page, HasSubstr("| nccl_tests | not run | there is no NCCL |"));
}

TEST(Checks, AreReadLineByLine) {
  const ChecksFile file("cuda_tests\tpassed\t12 tests\nnccl\tnot run\t\n");
  const std::vector<Check> checks = read_checks(file.path());
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].name, "cuda_tests");
  EXPECT_EQ(checks[0].outcome, "passed");
  EXPECT_EQ(checks[0].detail, "12 tests");
  EXPECT_EQ(checks[1].outcome, "not run");
}

TEST(Checks, MalformedOnesAreRefusedWithTheLine) {
  EXPECT_THAT(refusal_of("/nonexistent/checks"), HasSubstr("cannot read /nonexistent/checks"));
  for (const char* bad : {"cuda_tests passed", "cuda_tests\tpassed", "\tpassed\t", "a\tfine\tb", ""}) {
    const ChecksFile file(std::string("a\tpassed\tb\n") + bad + "\n");
    EXPECT_THAT(refusal_of(file.path()), HasSubstr("checks: line 2 of ")) << bad;
  }
}

}  // namespace
}  // namespace sluice::microbench
