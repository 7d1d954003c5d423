#include "forked_ranks.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "sluice/error.hpp"

namespace sluice::test {
namespace {

constexpr std::size_t kLongestRow = 60000;
constexpr auto kLongestMeeting = std::chrono::seconds(30);
constexpr auto kLook = std::chrono::microseconds(200);

}  // namespace

SharedMapping::SharedMapping(std::size_t bytes)
    : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  if (data_ == MAP_FAILED) throw Error("no shared memory");
}

SharedMapping::~SharedMapping() { munmap(data_, bytes_); }

struct MappedMeeting::Row {
  /// How many exchanges the rank has given bytes to, and how many it has read.
  std::atomic<std::uint32_t> given{0};
  std::atomic<std::uint32_t> read{0};
  std::size_t length = 0;
  std::byte bytes[kLongestRow];
};

class MappedMeeting::Place final : public process::Bootstrap {
 public:
  Place(Row* rows, std::uint32_t rank, std::uint32_t ranks) : rows_(rows), rank_(rank), ranks_(ranks) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const std::string& host() const noexcept override { return host_; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    if (own.size() > kLongestRow) throw Error("too many bytes for a meeting");
    wait_for(&Row::read, round_);
    Row& row = rows_[rank_];
    row.length = own.size();
    std::copy(own.begin(), own.end(), row.bytes);
    row.given.store(++round_, std::memory_order_release);
    wait_for(&Row::given, round_);
    std::vector<std::vector<std::byte>> all;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      all.emplace_back(rows_[rank].bytes, rows_[rank].bytes + rows_[rank].length);
    row.read.store(round_, std::memory_order_release);
    return all;
  }

 private:
  void wait_for(std::atomic<std::uint32_t> Row::*count, std::uint32_t least) const {
    const auto until = std::chrono::steady_clock::now() + kLongestMeeting;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      while ((rows_[rank].*count).load(std::memory_order_acquire) < least) {
        if (std::chrono::steady_clock::now() > until)
          throw Error("rank " + std::to_string(rank) + " did not come to the meeting");
        std::this_thread::sleep_for(kLook);
      }
    }
  }

  Row* rows_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::uint32_t round_ = 0;
  std::string host_ = "localhost";
};

MappedMeeting::MappedMeeting(std::uint32_t ranks) : ranks_(ranks), rows_(ranks * sizeof(Row)) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) new (rows_.as<Row>() + rank) Row;
}

MappedMeeting::~MappedMeeting() = default;

std::unique_ptr<process::Bootstrap> MappedMeeting::bootstrap(std::uint32_t rank) {
  return std::make_unique<Place>(rows_.as<Row>(), rank, ranks_);
}

ForkedRanks::ForkedRanks(std::uint32_t ranks, const std::function<int(process::Bootstrap&)>& work)
    : meeting_(ranks) {
  std::fflush(nullptr);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw Error("cannot fork");
    if (child > 0) {
      processes_.push_back(child);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = kException;
    try {
      code = work(*meeting_.bootstrap(rank));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    }
    std::fflush(nullptr);
    _exit(code);
  }
}

ForkedRanks::~ForkedRanks() { wait(std::chrono::seconds(0)); }

std::vector<Ending> ForkedRanks::wait(std::chrono::seconds longest) {
  const auto until = std::chrono::steady_clock::now() + longest;
  std::vector<Ending> endings(processes_.size());
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(processes_[rank], &status, WNOHANG)) == 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (ended == 0) {
      kill(processes_[rank], SIGKILL);
      waitpid(processes_[rank], &status, 0);
    }
    if (WIFEXITED(status)) endings[rank].code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) endings[rank].signal = WTERMSIG(status);
  }
  processes_.clear();
  return endings;
}

void pin_to_core(std::uint32_t core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof cores, &cores) != 0)
    throw Error("cannot run on core " + std::to_string(core));
}

}  // namespace sluice::test
