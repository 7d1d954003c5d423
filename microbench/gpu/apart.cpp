#include "gpu/apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "sluice/error.hpp"

namespace sluice::microbench {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int descriptor, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(descriptor, text.data() + written, text.size() - written);
    if (count <= 0) return;
    written += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void run_here(const std::function<nlohmann::json()>& work, int descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  nlohmann::json answer;
  try {
    answer["result"] = work();
  } catch (const std::exception& error) {
    answer["error"] = error.what();
  }
  write_all(descriptor, answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  close(descriptor);
  std::exit(EXIT_SUCCESS);
}

/// A process, the group that it and its own make up, and what it says.
class Child {
 public:
  Child(pid_t process, int descriptor) : process_(process), descriptor_(descriptor) {}
  ~Child() {
    if (process_ > 0) end();
    close(descriptor_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// All it says until it closes its end.
  /// @return false if that did not come in time
  bool listen(Clock::time_point until, std::string& text) {
    std::array<char, 65536> buffer{};
    while (Clock::now() < until) {
      pollfd event{descriptor_, POLLIN, 0};
      if (poll(&event, 1, 100) <= 0) continue;
      const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
      if (count <= 0) return true;
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return false;
  }

  /// Waits for its end.
  /// @return its status; negative if it did not end in time
  int wait(Clock::time_point until) {
    int status = 0;
    while (waitpid(process_, &status, WNOHANG) == 0) {
      if (Clock::now() > until) return -1;
      usleep(1000);
    }
    kill(-process_, SIGKILL);
    process_ = -1;
    return status;
  }

 private:
  void end() {
    kill(-process_, SIGKILL);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  pid_t process_;
  int descriptor_;
};

std::string ending(int status) {
  if (status < 0) return "its process did not end";
  if (WIFSIGNALED(status)) return "its process was ended by signal " + std::to_string(WTERMSIG(status));
  return "its process ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

nlohmann::json run_apart(const std::function<nlohmann::json()>& work, std::chrono::seconds longest) {
  const auto until = Clock::now() + longest;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe to a process of its own");
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0) throw Error("cannot fork a process of its own");
  if (process == 0) {
    setpgid(0, 0);
    close(ends[0]);
    run_here(work, ends[1]);
  }
  setpgid(process, process);
  close(ends[1]);
  Child child(process, ends[0]);
  std::string text;
  if (!child.listen(until, text)) throw Error("took longer than " + std::to_string(longest.count()) + " s");
  const int status = child.wait(until);
  const nlohmann::json answer = nlohmann::json::parse(text, nullptr, false);
  if (answer.is_object() && answer.contains("error")) throw Error(answer["error"].get<std::string>());
  if (status != 0 || !answer.is_object()) throw Error(ending(status));
  return answer.at("result");
}

}  // namespace sluice::microbench
