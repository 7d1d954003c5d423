#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"

namespace sluice::gpt::test {

/// What became of one process.
struct RankResult {
  /// What the body returned, or the text of its error.
  std::string text;
  /// As of a shell: 0 for a body that returned, 1 for one that threw, 128 + signal for a killed process.
  int status = -1;
};

class RankProcesses {
 public:
  using Body = std::function<std::string(const TcpStoreSettings&)>;

  /// Runs the body once in each of so many processes, which meet in a store of this process. Each is this
  /// executable again with the current test alone, so that no thread of an earlier test is in it; there the
  /// call does not return. At most one call a test.
  static std::vector<RankResult> run(std::uint32_t ranks, const Body& body) {
    if (const char* rank = std::getenv("SLUICE_TEST_RANK")) {
      TcpStoreSettings settings;
      settings.rank = static_cast<std::uint32_t>(std::stoul(rank));
      settings.ranks = ranks;
      settings.host = "127.0.0.1";
      settings.port = static_cast<std::uint16_t>(std::stoul(std::getenv("SLUICE_TEST_PORT")));
      be_rank(settings, body);
    }
    const TcpStoreHost store;
    std::vector<Process> processes;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) processes.push_back(start(rank, store.port()));
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::vector<RankResult> results;
    for (const Process& process : processes) results.push_back(finish(process, deadline));
    return results;
  }

 private:
  static constexpr std::chrono::seconds kPatience{90};
  static constexpr int kResult = 100;  // descriptor a process writes its text to

  struct Process {
    pid_t id;
    int result;
  };

  [[noreturn]] static void be_rank(const TcpStoreSettings& settings, const Body& body) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string text;
    int status = 0;
    try {
      text = body(settings);
    } catch (const std::exception& error) {
      text = error.what();
      status = 1;
    }
    const bool written = ::write(kResult, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? status : 2);
  }

  static Process start(std::uint32_t rank, std::uint16_t port) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    std::vector<std::string> arguments{
        "/proc/self/exe", std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name()};
    std::vector<std::string> variables{"SLUICE_TEST_RANK=" + std::to_string(rank),
                                       "SLUICE_TEST_PORT=" + std::to_string(port)};
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error("no pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], kResult);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    Process process{0, ends[0]};
    const int error = ::posix_spawn(&process.id, arguments[0].c_str(), &actions, nullptr,
                                    pointers(arguments).data(), pointers(variables).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error != 0) throw Error("no process");
    return process;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }

  /// Reads until the process ends, or ends it at the deadline.
  static RankResult finish(const Process& process, std::chrono::steady_clock::time_point deadline) {
    RankResult result;
    char buffer[4096];
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd readable{process.result, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
        ::kill(process.id, SIGKILL);
        break;
      }
      const ssize_t size = ::read(process.result, buffer, sizeof(buffer));
      if (size <= 0) break;
      result.text.append(buffer, static_cast<std::size_t>(size));
    }
    ::close(process.result);
    int status = 0;
    ::waitpid(process.id, &status, 0);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
  }
};

}  // namespace sluice::gpt::test
