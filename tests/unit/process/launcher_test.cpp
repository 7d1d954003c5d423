#include "sluice/process/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A folder that is gone after the test.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("sluice_launcher_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  /// The file's text once it ends with a line end; empty if that takes long.
  [[nodiscard]] std::string text(const std::string& name) const {
    for (int i = 0; i < 6000; ++i) {
      std::ifstream in(file(name));
      std::stringstream text;
      text << in.rdbuf();
      if (text.str().ends_with('\n')) return text.str();
      std::this_thread::sleep_for(10ms);
    }
    return {};
  }

 private:
  std::filesystem::path path_;
};

LaunchOptions shell(std::uint32_t ranks, const std::string& script) {
  LaunchOptions options;
  options.ranks = ranks;
  options.command = {"sh", "-c", script};
  options.grace = 10s;
  return options;
}

TEST(Launcher, GivesEachRankItsPlace) {
  const Folder folder;
  LaunchOptions options = shell(3,
                                "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
                                "$MASTER_PORT $EXTRA > $FOLDER/$RANK");
  options.host = "localhost";
  options.port = 4242;
  options.environment = {{"EXTRA", "a=b c"}, {"FOLDER", folder.file("")}};
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.text, "");
  ASSERT_EQ(result.ranks.size(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string own = std::to_string(rank);
    EXPECT_TRUE(result.ranks[static_cast<std::size_t>(rank)].well());
    EXPECT_EQ(folder.text(own), own + " " + own + " 3 3 localhost 4242 a=b c\n");
  }
}

TEST(Launcher, ReplacesWhatThisProcessHas) {
  const Folder folder;
  setenv("RANK", "77", 1);
  LaunchOptions options = shell(1, "env | grep -c ^RANK= > $FOLDER/count; echo $RANK > $FOLDER/rank");
  options.environment = {{"FOLDER", folder.file("")}};
  EXPECT_EQ(launch(options).code, 0);
  unsetenv("RANK");
  EXPECT_EQ(folder.text("count"), "1\n");
  EXPECT_EQ(folder.text("rank"), "0\n");
}

TEST(Launcher, ChoosesAFreePort) {
  const Folder folder;
  LaunchOptions options = shell(1, "echo $MASTER_PORT > $FOLDER/port");
  options.environment = {{"FOLDER", folder.file("")}};
  EXPECT_EQ(launch(options).code, 0);
  EXPECT_GT(std::stoi(folder.text("port")), 0);
}

TEST(Launcher, ReportsTheCodeOfTheRankThatFailedFirst) {
  const Folder folder;
  // The others wait until the launcher has noticed the end of rank 1.
  LaunchOptions options =
      shell(3,
            "if [ $RANK = 1 ]; then echo $$ > $FOLDER/new; mv $FOLDER/new $FOLDER/1; exit 7; fi;"
            "while [ ! -e $FOLDER/1 ]; do sleep 0.01; done;"
            "while kill -0 $(cat $FOLDER/1) 2> /dev/null; do sleep 0.01; done; exit $RANK");
  options.environment = {{"FOLDER", folder.file("")}};
  options.grace = 60s;
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.text, "rank 1 exited with code 7, rank 2 exited with code 2");
  EXPECT_TRUE(result.ranks[0].well());
}

TEST(Launcher, ReportsASignal) {
  const LaunchResult result = launch(shell(2, "if [ $RANK = 1 ]; then kill -9 $$; fi"));
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_EQ(result.ranks[1].signal, SIGKILL);
  EXPECT_FALSE(result.ranks[1].told_to);
  EXPECT_EQ(result.text, "rank 1 was killed by signal 9 (Killed)");
}

TEST(Launcher, AfterAFailureTheOthersAreAskedToEnd) {
  LaunchOptions options = shell(2, "if [ $RANK = 1 ]; then exit 3; fi; exec sleep 1000");
  options.grace = 200ms;
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.ranks[0].signal, SIGTERM);
  EXPECT_TRUE(result.ranks[0].told_to);
  EXPECT_EQ(result.text,
            "rank 1 exited with code 3, rank 0 was killed by the launcher by signal 15 (Terminated)");
}

TEST(Launcher, WhoDoesNotEndWhenAskedIsKilled) {
  const Folder folder;
  LaunchOptions options =
      shell(2,
            "if [ $RANK = 1 ]; then while [ ! -e $FOLDER/deaf ]; do sleep 0.01; done; exit 3; fi;"
            "trap '' TERM; touch $FOLDER/deaf; while true; do sleep 0.05; done");
  options.environment = {{"FOLDER", folder.file("")}};
  options.grace = 100ms;
  options.last_grace = 100ms;
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.ranks[0].signal, SIGKILL);
}

TEST(Launcher, AStoppedRankIsEndedToo) {
  LaunchOptions options = shell(2, "if [ $RANK = 1 ]; then exit 3; fi; kill -STOP $$; exec sleep 1000");
  options.grace = 300ms;
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.ranks[0].signal, 0);
}

TEST(Launcher, TheOthersMayEndByThemselves) {
  const LaunchResult result = launch(shell(2, "if [ $RANK = 1 ]; then exit 3; fi; sleep 0.3; exit 0"));
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(result.ranks[0].well());
  EXPECT_EQ(result.text, "rank 1 exited with code 3");
}

TEST(Launcher, ACommandThatDoesNotExistIsAnError) {
  LaunchOptions options;
  options.ranks = 2;
  options.command = {"no-such-command-anywhere"};
  try {
    (void)launch(options);
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no-such-command-anywhere cannot be started: No such file or directory");
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Launcher, RefusesNoRanksAndNoCommand) {
  EXPECT_THROW((void)launch(shell(0, "true")), ConfigError);
  LaunchOptions options;
  EXPECT_THROW((void)launch(options), ConfigError);
}

TEST(Launcher, TheSignalsOfThisProcessAreAsBefore) {
  sigset_t before{};
  sigset_t after{};
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  EXPECT_EQ(launch(shell(1, "true")).code, 0);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD})
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number));
}

TEST(Launcher, ChildrenTakeSignalsAsUsual) {
  const LaunchResult result = launch(shell(1, "kill -TERM $$; sleep 1000"));
  EXPECT_EQ(result.code, 128 + SIGTERM);
}

/// A launcher in a process of its own, and the ranks it starts, which write their numbers to the folder.
class LauncherProcess : public testing::Test {
 protected:
  void SetUp() override {
    // What the launcher leaves behind becomes a child of the test.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    launcher_ = fork();
    if (launcher_ == 0) {
      LaunchOptions options = shell(2, "echo $$ > $FOLDER/$RANK; exec sleep 1000");
      options.environment = {{"FOLDER", folder_.file("")}};
      const LaunchResult result = launch(options);
      std::ofstream(folder_.file("result")) << result.text << "\n";
      _exit(result.code);
    }
    for (const char* rank : {"0", "1"}) ranks_.push_back(std::stoi("0" + folder_.text(rank)));
  }
  void TearDown() override {
    kill(launcher_, SIGKILL);
    for (const pid_t rank : ranks_) kill(rank, SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  /// The status of a process that ends, or -1.
  [[nodiscard]] static int await(pid_t process) {
    int status = 0;
    for (int i = 0; i < 6000; ++i) {
      if (waitpid(process, &status, WNOHANG) == process) return status;
      std::this_thread::sleep_for(10ms);
    }
    return -1;
  }

  Folder folder_;
  pid_t launcher_ = 0;
  std::vector<pid_t> ranks_;
};

TEST_F(LauncherProcess, KilledTakesItsRanksWithIt) {
  ASSERT_GT(ranks_[0], 0);
  kill(launcher_, SIGKILL);
  (void)await(launcher_);
  for (const pid_t rank : ranks_) {
    const int status = await(rank);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
}

TEST_F(LauncherProcess, PassesSignalsOn) {
  kill(launcher_, SIGINT);
  const int status = await(launcher_);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  const std::string text = folder_.text("result");
  EXPECT_TRUE(text.starts_with("interrupted by signal 2 (Interrupt), ")) << text;
  EXPECT_THAT(text, HasSubstr("rank 0 was killed by signal 2 (Interrupt)"));
  EXPECT_THAT(text, HasSubstr("rank 1 was killed by signal 2 (Interrupt)"));
}

TEST_F(LauncherProcess, TellsOfARankThatWasKilled) {
  kill(ranks_[1], SIGKILL);
  kill(ranks_[0], SIGTERM);
  const int status = await(launcher_);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_THAT(folder_.text("result"), HasSubstr("rank 1 was killed by signal 9 (Killed)"));
}

TEST(FreePort, CanBeListenedOn) {
  const std::uint16_t port = free_port();
  EXPECT_GT(port, 0);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(listener);
}

TEST(FreePort, IsNotOneThatAConnectionGets) {
  unsigned first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  if (first < 11'000) GTEST_SKIP() << "this system gives ports from " << first;
  for (int attempt = 0; attempt < 20; ++attempt) EXPECT_LT(free_port(), first);
}

}  // namespace
}  // namespace sluice::process
