#include "sluice/torch/text_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kContext = 8;
constexpr std::size_t kRows = 3;

class TextDataFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const fs::path& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("sluice_text_" + std::to_string(getpid()));
};

void expect_refused(const std::function<void()>& use, const std::string& reason) {
  try {
    use();
    FAIL() << "accepted; expected: " << reason;
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "text");
    EXPECT_THAT(error.what(), testing::HasSubstr(reason));
  }
}

struct Rows {
  std::vector<std::int64_t> inputs = std::vector<std::int64_t>(kRows * kContext);
  std::vector<std::int64_t> targets = std::vector<std::int64_t>(kRows * kContext);
};

Rows training_rows(const TextData& text, const BatchKey& key) {
  Rows rows;
  text.training_batch(key, rows.inputs, rows.targets);
  return rows;
}

Rows held_out_rows(const TextData& text, const BatchKey& key) {
  Rows rows;
  text.held_out_batch(key, rows.inputs, rows.targets);
  return rows;
}

/// Bytes 'a' to train on, bytes 'z' in the held-out twentieth.
TextData marked_text() { return {std::string(1900, 'a') + std::string(100, 'z'), kContext}; }

TEST(TextData, RefusesTextWithoutOneRow) {
  expect_refused([] { TextData("", kContext); }, "is empty");
  expect_refused([] { TextData("12345678", kContext); }, "needs at least 9");
  EXPECT_NO_THROW(TextData("123456789", kContext));
}

TEST(TextData, TargetsAreTheInputsMovedOnByOne) {
  std::string bytes(200, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  const Rows rows = training_rows(TextData(bytes, kContext), {1, 2, 3});
  for (std::size_t i = 0; i < rows.inputs.size(); ++i) {
    EXPECT_EQ(rows.targets[i], rows.inputs[i] + 1);
    if (i % kContext == 0) continue;
    EXPECT_EQ(rows.inputs[i], rows.inputs[i - 1] + 1);
  }
}

TEST(TextData, BytesAbove127AreTokensAbove127) {
  const Rows rows = training_rows(TextData(std::string(20, '\xff'), kContext), {});
  EXPECT_THAT(rows.inputs, testing::Each(255));
}

TEST(TextData, RowsDependOnEveryPartOfTheKeyAndOnNothingElse) {
  std::string bytes(5000, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * i) % 251);
  const TextData text(bytes, kContext);
  const Rows rows = training_rows(text, {1, 2, 3});
  EXPECT_EQ(training_rows(text, {1, 2, 3}).inputs, rows.inputs);
  EXPECT_NE(training_rows(text, {0, 2, 3}).inputs, rows.inputs);
  EXPECT_NE(training_rows(text, {1, 0, 3}).inputs, rows.inputs);
  EXPECT_NE(training_rows(text, {1, 2, 0}).inputs, rows.inputs);
}

TEST(TextData, TrainingNeverReadsTheHeldOutTail) {
  const TextData text = marked_text();
  EXPECT_EQ(text.held_out_bytes(), 100U);
  for (std::uint64_t step = 0; step < 200; ++step) {
    const Rows rows = training_rows(text, {7, step, 0});
    ASSERT_THAT(rows.inputs, testing::Each('a'));
    ASSERT_THAT(rows.targets, testing::Each('a'));
  }
}

TEST(TextData, EvaluationReadsTheTailAndTheSameRowsAtEveryStep) {
  const TextData text = marked_text();
  const Rows rows = held_out_rows(text, {7, 0, 0});
  EXPECT_THAT(rows.inputs, testing::Each('z'));
  EXPECT_THAT(rows.targets, testing::Each('z'));
  EXPECT_EQ(held_out_rows(text, {7, 5, 0}).inputs, rows.inputs);
}

TEST(TextData, ShortTextHoldsNothingOutAndRefusesEvaluation) {
  const TextData text(std::string(100, 'a'), kContext);
  EXPECT_EQ(text.held_out_bytes(), 0U);
  EXPECT_EQ(text.training_bytes(), 100U);
  expect_refused([&] { text.require_held_out(); }, "too short to hold a part out");
  expect_refused([&] { (void)held_out_rows(text, {}); }, "too short to hold a part out");
  EXPECT_NO_THROW(marked_text().require_held_out());
}

TEST_F(TextDataFiles, ReadsAFolderSortedSkippingHiddenAndBinaryFiles) {
  write("b.md", "bbbb");
  write("a/z.txt", "aaaa");
  write("c.bin", std::string("cc\0c", 4));
  write(".hidden/d.md", "dddd");
  write("e.cpp", "eeee");
  fs::create_symlink("nowhere", folder_ / "broken.md");
  const TextData text = TextData::load(folder_, 11);
  std::vector<std::int64_t> inputs(11);
  std::vector<std::int64_t> targets(11);
  text.training_batch({}, inputs, targets);
  EXPECT_EQ(text.training_bytes(), 12U);
  EXPECT_EQ(std::string(inputs.begin(), inputs.end()), "aaaabbbbeee");
}

TEST_F(TextDataFiles, ReadsSeveralPathsInTheOrderGiven) {
  const std::array paths{write("2.txt", "2222"), write("1.txt", "1111")};
  const TextData text = TextData::load(paths, 7);
  std::vector<std::int64_t> inputs(7);
  std::vector<std::int64_t> targets(7);
  text.training_batch({}, inputs, targets);
  EXPECT_EQ(std::string(inputs.begin(), inputs.end()), "2222111");
}

TEST_F(TextDataFiles, RefusesWhatIsNoText) {
  expect_refused([&] { TextData::load(folder_ / "missing.txt", kContext); }, "no such file or folder");
  expect_refused([&] { TextData::load(folder_, kContext); }, "no text in");
  expect_refused([&] { TextData::load(fs::path("/dev/null"), kContext); }, "neither a file nor a folder");
  expect_refused([&] { TextData::load(write("empty.txt", ""), kContext); }, "no text in");
  expect_refused([&] { TextData::load(write("short.txt", "short"), kContext); }, "has 5 bytes");
  expect_refused([&] { TextData::load(write("binary", std::string(50, '\0')), kContext); },
                 "is a binary file");
}

}  // namespace
}  // namespace sluice::gpt
