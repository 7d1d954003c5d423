#include "sluice/process/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <span>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "socket.hpp"

namespace sluice::process {
namespace {

using std::chrono::milliseconds;

/// Also finds what no signal told of.
constexpr milliseconds kLongestLook{100};
constexpr int kCannotStart = 127;

/// Takes signals from their default handling to a descriptor, until destroyed.
class Signals {
 public:
  Signals() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&taken, number);
    pthread_sigmask(SIG_BLOCK, &taken, &before_);
    // Ignored, it would take the exit codes of children with it.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &child_before_);
    descriptor_.reset(signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~Signals() {
    sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// What a child must have again.
  [[nodiscard]] const sigset_t& before() const noexcept { return before_; }
  void wait(milliseconds longest) const {
    pollfd event{descriptor_.get(), POLLIN, 0};
    poll(&event, 1, static_cast<int>(longest.count()));
  }
  [[nodiscard]] bool take(signalfd_siginfo& info) const {
    return read(descriptor_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
  }

 private:
  sigset_t before_{};
  struct sigaction child_before_ {};
  Descriptor descriptor_;
};

/// A null-terminated array of C strings.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char* const* get() const noexcept { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

std::vector<std::string> environment_of(const LaunchOptions& options, std::uint32_t rank,
                                        std::uint16_t port) {
  std::vector<std::pair<std::string, std::string>> own = {
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(options.ranks)},
      {"LOCAL_WORLD_SIZE", std::to_string(options.ranks)},
      {"MASTER_ADDR", options.host},
      {"MASTER_PORT", std::to_string(port)},
  };
  own.insert(own.end(), options.environment.begin(), options.environment.end());
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (std::none_of(own.begin(), own.end(), [name](const auto& set) { return set.first == name; }))
      all.emplace_back(entry);
  }
  for (const auto& [name, value] : own) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

/// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(const Words& command, const Words& environment, pid_t parent, int to_parent,
                         const sigset_t& signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above.
  if (getppid() != parent) _exit(kCannotStart);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  execvpe(command.get()[0], command.get(), environment.get());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(to_parent, &error, sizeof error);
  _exit(kCannotStart);
}

/// The processes of one launch. Destroyed early, it kills them.
class Processes {
 public:
  Processes(const LaunchOptions& options, const Signals& signals) : ends_(options.ranks) {
    const std::uint16_t port = options.port != 0 ? options.port : free_port();
    try {
      for (std::uint32_t rank = 0; rank < options.ranks; ++rank) start(options, rank, port, signals);
    } catch (...) {
      kill_all();
      throw;
    }
  }
  ~Processes() { kill_all(); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  [[nodiscard]] bool running() const noexcept {
    return std::any_of(processes_.begin(), processes_.end(), [](pid_t process) { return process > 0; });
  }
  /// Ranks that did not end well, in the order in which they were found.
  [[nodiscard]] std::span<const std::uint32_t> failed() const noexcept { return failed_; }
  [[nodiscard]] const std::vector<RankEnd>& ends() const noexcept { return ends_; }

  void reap() {
    for (std::uint32_t rank = 0; rank < processes_.size(); ++rank) {
      int status = 0;
      if (processes_[rank] <= 0) continue;
      const pid_t ended = waitpid(processes_[rank], &status, WNOHANG);
      if (ended == 0) continue;
      processes_[rank] = 0;
      if (ended > 0 && WIFEXITED(status)) ends_[rank].code = WEXITSTATUS(status);
      if (ended > 0 && WIFSIGNALED(status)) ends_[rank].signal = WTERMSIG(status);
      if (ended < 0) ends_[rank].code = kCannotStart;
      if (!ends_[rank].well()) failed_.push_back(rank);
    }
  }

  void send(int signal) const {
    for (const pid_t process : processes_) {
      if (process > 0) kill(process, signal);
    }
  }
  void tell_to_end(int signal) {
    for (std::uint32_t rank = 0; rank < processes_.size(); ++rank)
      ends_[rank].told_to |= processes_[rank] > 0;
    send(signal);
    // A stopped process ends only once it goes on.
    send(SIGCONT);
  }

 private:
  void start(const LaunchOptions& options, std::uint32_t rank, std::uint16_t port, const Signals& signals) {
    const Words command(options.command);
    const Words environment(environment_of(options, rank, port));
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe: " + describe(errno));
    const Descriptor from_child(ends[0]);
    Descriptor to_parent(ends[1]);
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process < 0) throw Error("cannot start a process: " + describe(errno));
    if (process == 0) become(command, environment, parent, to_parent.get(), signals.before());
    processes_.push_back(process);
    to_parent.reset();
    // Ends without a word when the command has been started.
    int error = 0;
    ssize_t count = 0;
    do {
      count = read(from_child.get(), &error, sizeof error);
    } while (count < 0 && errno == EINTR);
    if (count > 0) throw Error(fmt::format("{} cannot be started: {}", options.command[0], describe(error)));
  }

  void kill_all() noexcept {
    for (pid_t& process : processes_) {
      if (process <= 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
      process = 0;
    }
  }

  std::vector<pid_t> processes_;
  std::vector<RankEnd> ends_;
  std::vector<std::uint32_t> failed_;
};

/// What is left to do about ranks that go on after the launch has failed.
class Ending {
 public:
  explicit Ending(const LaunchOptions& options) : options_(options) {}

  void begin() {
    if (next_ == Step::None) move(Step::Ask, options_.grace);
  }
  /// No more grace.
  void hurry() {
    if (next_ == Step::Ask) due_ = clock_.now();
  }
  void act(Processes& processes) {
    if (next_ == Step::None || clock_.now() < due_) return;
    if (next_ == Step::Ask) {
      processes.tell_to_end(SIGTERM);
      move(Step::Kill, options_.last_grace);
    } else {
      processes.tell_to_end(SIGKILL);
      due_ = clock_.now() + kLongestLook;
    }
  }
  [[nodiscard]] milliseconds until_due() const {
    if (next_ == Step::None) return kLongestLook;
    return std::clamp(std::chrono::ceil<milliseconds>(due_ - clock_.now()), milliseconds{0}, kLongestLook);
  }

 private:
  enum class Step : std::uint8_t { None, Ask, Kill };

  void move(Step next, Duration wait) {
    next_ = next;
    due_ = clock_.now() + wait;
  }

  const LaunchOptions& options_;
  host::SteadyClock clock_;
  Step next_ = Step::None;
  Time due_{};
};

std::string describe_end(std::uint32_t rank, const RankEnd& end) {
  const std::string told = end.told_to ? " by the launcher" : "";
  if (end.signal == 0) return fmt::format("rank {} exited with code {}", rank, end.code);
  return fmt::format("rank {} was killed{} by signal {} ({})", rank, told, end.signal, strsignal(end.signal));
}

/// @param interrupted the signal that ended the launch, or 0
LaunchResult result_of(const Processes& processes, int interrupted) {
  LaunchResult result;
  result.ranks = processes.ends();
  if (!processes.failed().empty()) {
    const RankEnd& first = result.ranks[processes.failed().front()];
    result.code = first.signal != 0 ? 128 + first.signal : first.code;
  }
  if (interrupted != 0) result.code = 128 + interrupted;
  std::vector<std::string> lines;
  if (interrupted != 0)
    lines.push_back(fmt::format("interrupted by signal {} ({})", interrupted, strsignal(interrupted)));
  for (const std::uint32_t rank : processes.failed()) lines.push_back(describe_end(rank, result.ranks[rank]));
  result.text = fmt::format("{}", fmt::join(lines, ", "));
  return result;
}

/// Where to look for a free port: below those that the system gives to whoever asks for any, such as every
/// connection that is made, and so to somebody else before rank 0 listens.
constexpr unsigned kFirstPort = 10'000;
constexpr int kPortAttempts = 100;

/// The lowest port that the system hands out by itself.
unsigned first_port_of_system() {
  unsigned first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first;
}

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  if (options.ranks == 0) throw ConfigError("ranks", "must be at least 1");
  if (options.command.empty()) throw ConfigError("command", "is empty");
  const Signals signals;
  Processes processes(options, signals);
  Ending ending(options);
  int interrupted = 0;
  while (processes.running()) {
    signals.wait(ending.until_due());
    for (signalfd_siginfo info{}; signals.take(info);) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      // What a terminal sends, the ranks got from it too.
      if (info.ssi_code != SI_KERNEL) processes.send(number);
      if (interrupted != 0) ending.hurry();
      interrupted = number;
      ending.begin();
    }
    processes.reap();
    if (!processes.failed().empty()) ending.begin();
    ending.act(processes);
  }
  return result_of(processes, interrupted);
}

std::uint16_t free_port() {
  const unsigned end = first_port_of_system();
  std::random_device seed;
  for (int attempt = 0; attempt < kPortAttempts && end > kFirstPort; ++attempt) {
    std::uniform_int_distribution<unsigned> draw(kFirstPort, end - 1);
    const auto port = static_cast<std::uint16_t>(draw(seed));
    if (may_listen_on(port)) return port;
  }
  return listen_for("127.0.0.1", 1).port;
}

}  // namespace sluice::process
