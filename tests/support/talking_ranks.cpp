#include "talking_ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <thread>

#include "sluice/error.hpp"

namespace sluice::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLong = std::chrono::seconds(60);
constexpr int kException = 99;

[[noreturn]] void run_child(TalkingRanks::Self& self, const std::function<int(TalkingRanks::Self&)>& body) {
  int code = kException;
  try {
    code = body(self);
  } catch (const std::exception& error) {
    self.say(error.what());
  }
  _exit(code);
}

}  // namespace

void TalkingRanks::Self::say(const std::string& line) const {
  const std::string text = line + "\n";
  // Less than a pipe takes at once.
  if (write(to_test_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(kException);
}

TalkingRanks::TalkingRanks(std::uint32_t ranks, const std::function<int(Self&)>& body)
    : meeting_(ranks), children_(ranks) {
  const pid_t test = getpid();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("a test has no pipe");
    const pid_t process = fork();
    if (process < 0) throw Error("a test cannot fork");
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != test) _exit(kException);
      close(ends[0]);
      const std::unique_ptr<process::Bootstrap> bootstrap = meeting_.bootstrap(rank);
      Self self(*bootstrap, ends[1]);
      run_child(self, body);
    }
    close(ends[1]);
    children_[rank].process = process;
    children_[rank].lines = ends[0];
  }
}

TalkingRanks::~TalkingRanks() {
  for (const Child& child : children_) {
    if (child.process >= 0 && !child.code) {
      kill(child.process, SIGKILL);
      waitpid(child.process, nullptr, 0);
    }
    if (child.lines >= 0) close(child.lines);
  }
}

void TalkingRanks::signal(std::uint32_t rank, int number) const { kill(children_[rank].process, number); }

std::optional<std::string> TalkingRanks::line(std::uint32_t rank) {
  Child& child = children_[rank];
  const auto deadline = Clock::now() + kLong;
  while (Clock::now() < deadline) {
    if (const std::size_t end = child.read.find('\n'); end != std::string::npos) {
      std::string line = child.read.substr(0, end);
      child.read.erase(0, end + 1);
      return line;
    }
    pollfd event{child.lines, POLLIN, 0};
    if (poll(&event, 1, 1000) <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = read(child.lines, buffer.data(), buffer.size());
    if (count <= 0) return std::nullopt;
    child.read.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

bool TalkingRanks::all_say(const std::string& expected) {
  for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
    if (line(rank) != expected) return false;
  }
  return true;
}

std::optional<int> TalkingRanks::exit_code(std::uint32_t rank) {
  Child& child = children_[rank];
  const auto deadline = Clock::now() + kLong;
  while (!child.code && Clock::now() < deadline) {
    int status = 0;
    if (waitpid(child.process, &status, WNOHANG) == child.process) {
      child.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return child.code;
}

}  // namespace sluice::test
