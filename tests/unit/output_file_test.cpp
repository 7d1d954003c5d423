#include "sluice/trace/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "sluice/error.hpp"
#include "temporary_folder.hpp"

namespace sluice::trace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OutputFile : public testing::Test {
 protected:
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::string refusal(const fs::path& path) {
    try {
      check_writable("timeline", path);
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "timeline");
      return error.what();
    }
    return "accepted";
  }

  static std::string failure(const fs::path& path) {
    try {
      write_file_atomically(path, "new");
    } catch (const Error& error) {
      return error.what();
    }
    return "written";
  }

  test::TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(OutputFile, CheckLeavesNothingBehind) {
  EXPECT_EQ(refusal(folder_ / "out.html"), "accepted");
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(OutputFile, CheckKeepsAnExistingFile) {
  std::ofstream(folder_ / "out.html") << "old";
  EXPECT_EQ(refusal(folder_ / "out.html"), "accepted");
  EXPECT_EQ(read(folder_ / "out.html"), "old");
  EXPECT_THAT(entries(), ElementsAre("out.html"));
}

TEST_F(OutputFile, CheckRefusesWhatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THAT(refusal(""), HasSubstr("timeline: the path is empty"));
  EXPECT_THAT(refusal(folder_), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(folder_ / "missing" / "out.html"),
              HasSubstr("folder " + (folder_ / "missing").string() + " does not exist"));
  EXPECT_THAT(refusal((folder_ / "new").string() + "/"), HasSubstr("names a folder"));
  EXPECT_THAT(refusal(folder_ / "file" / "out.html"), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal(folder_ / std::string(300, 'x')), HasSubstr("File name too long"));
  EXPECT_THAT(entries(), ElementsAre("file"));
}

TEST_F(OutputFile, CheckRefusesAReadOnlyFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(refusal(folder_ / "out.html"), HasSubstr("Permission denied"));
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(OutputFile, AcceptsAPathWithoutAFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const std::string answer = refusal("out.html");
  write_file_atomically("out.html", "new");
  fs::current_path(before);
  EXPECT_EQ(answer, "accepted");
  EXPECT_EQ(read(folder_ / "out.html"), "new");
}

TEST_F(OutputFile, WritesEveryByteAndNothingElse) {
  std::string contents(3'000'000, 'x');
  contents[1'000'000] = '\0';
  write_file_atomically(folder_ / "out.json", contents);
  EXPECT_EQ(read(folder_ / "out.json"), contents);
  EXPECT_THAT(entries(), ElementsAre("out.json"));
}

TEST_F(OutputFile, ReplacesAFileAndKeepsItsPermissions) {
  const fs::path path = folder_ / "out.json";
  std::ofstream(path) << "something longer";
  const auto mode = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read;
  fs::permissions(path, mode);
  write_file_atomically(path, "new");
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), mode);
}

TEST_F(OutputFile, ReplacesTheTargetOfALinkAndNotTheLink) {
  fs::create_directory(folder_ / "real");
  std::ofstream(folder_ / "real" / "out") << "old";
  fs::create_symlink(folder_ / "real" / "out", folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(folder_ / "real" / "out"), "new");
}

TEST_F(OutputFile, AReaderOfTheOldFileKeepsIt) {
  const fs::path path = folder_ / "out.json";
  std::ofstream(path) << "old";
  std::ifstream reader(path);
  write_file_atomically(path, "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
}

TEST_F(OutputFile, AFailureNamesThePathAndLeavesNothing) {
  EXPECT_THAT(failure(folder_ / "missing" / "out"),
              HasSubstr("cannot write " + (folder_ / "missing/out").string()));
  EXPECT_THAT(failure(folder_), HasSubstr("Is a directory"));
  EXPECT_THAT(failure(""), HasSubstr("cannot write"));
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(OutputFile, ADeviceIsWrittenInPlace) {
  EXPECT_EQ(refusal("/dev/null"), "accepted");
  write_file_atomically("/dev/null", "new");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(failure("/dev/full"), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace sluice::trace
