#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "nccl_test.hpp"

namespace fake_nccl_tests {
namespace {

constexpr int kCount = 1024;
constexpr const char* kPipe = "FAKE_NCCL_TESTS_PIPE";

/// The second rank, as another process that runs one test of this program: a process that has used the device
/// must not be forked. It reads the unique id from a pipe.
class Peer {
 public:
  explicit Peer(const std::string& test) {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    setenv(kPipe, std::to_string(pipe_[0]).c_str(), 1);
    const std::string filter = "--gtest_filter=ProcessesTest.DISABLED_" + test;
    std::array<char*, 4> arguments = {const_cast<char*>("peer"), const_cast<char*>(filter.c_str()),
                                      const_cast<char*>("--gtest_also_run_disabled_tests"), nullptr};
    EXPECT_EQ(posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
    unsetenv(kPipe);
    close(pipe_[0]);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(pipe_[1]); }

  void send(const ncclUniqueId& id) const {
    EXPECT_EQ(write(pipe_[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  }
  void kill() const { EXPECT_EQ(::kill(process_, SIGKILL), 0); }
  [[nodiscard]] int status() const {
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    return status;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t process_ = 0;
};

class ProcessesTest : public NcclTest {
 protected:
  /// In the other process: what it got.
  static ncclUniqueId receive_id() {
    ncclUniqueId id{};
    EXPECT_EQ(read(std::atoi(std::getenv(kPipe)), &id, sizeof id), static_cast<ssize_t>(sizeof id));
    return id;
  }
  [[nodiscard]] static bool is_peer() { return std::getenv(kPipe) != nullptr; }
};

/// What both ranks do: add up, and put into each other's window.
void exchange(const Rank& rank) {
  const WindowNumbers numbers(2 * kCount);
  const Registered window(rank, numbers);
  const std::size_t half = numbers.bytes() / 2;
  EXPECT_EQ(fake_cuda_tests::count_up(numbers.data(), kCount, 5, rank.stream()), cudaSuccess);
  EXPECT_EQ(rank.settled(nccl().all_reduce(numbers.data(), numbers.data(), kCount, ncclInt32, ncclSum,
                                           rank.get(), rank.stream())),
            ncclSuccess);
  EXPECT_EQ(rank.put(numbers.data(), half, window.get(), half), ncclSuccess);
  EXPECT_EQ(rank.wait(1), ncclSuccess);
  const PinnedNumbers result(kCount);
  EXPECT_EQ(
      cudaMemcpyAsync(result.data(), numbers.data() + kCount, half, cudaMemcpyDeviceToHost, rank.stream()),
      cudaSuccess);
  EXPECT_EQ(rank.synchronize(), cudaSuccess);
  EXPECT_EQ(result[0], 10);
  EXPECT_EQ(result[kCount - 1], 2 * (5 + kCount - 1));
  // Both have read: the windows may go.
  EXPECT_EQ(rank.settled(nccl().signal(rank.peer(), 0, 0, 0, rank.get(), rank.stream())), ncclSuccess);
  EXPECT_EQ(rank.wait(1), ncclSuccess);
  EXPECT_EQ(rank.synchronize(), cudaSuccess);
}

TEST_F(ProcessesTest, DISABLED_Exchanges) {
  if (!is_peer()) GTEST_SKIP() << "run by another test";
  EXPECT_EQ(cudaSetDevice(1 % devices_), cudaSuccess);
  const Rank rank(receive_id(), 2, 1);
  exchange(rank);
}

TEST_F(ProcessesTest, RanksMayBeProcesses) {
  const Peer peer("Exchanges");
  const ncclUniqueId id = new_id();
  peer.send(id);
  const Rank rank(id, 2, 0);
  exchange(rank);
  EXPECT_EQ(peer.status(), 0);
}

TEST_F(ProcessesTest, DISABLED_IsKilled) {
  if (!is_peer()) GTEST_SKIP() << "run by another test";
  EXPECT_EQ(cudaSetDevice(1 % devices_), cudaSuccess);
  const Rank rank(receive_id(), 2, 1);
  pause();
}

TEST_F(ProcessesTest, APeerThatDiesIsARemoteError) {
  const Peer peer("IsKilled");
  const ncclUniqueId id = new_id();
  peer.send(id);
  Rank rank(id, 2, 0);
  const WindowNumbers numbers(kCount);
  EXPECT_EQ(rank.settled(nccl().all_reduce(numbers.data(), numbers.data(), kCount, ncclInt32, ncclSum,
                                           rank.get(), rank.stream())),
            ncclSuccess);
  peer.kill();
  // Seen although nobody has waited for the process.
  EXPECT_EQ(next_error(rank.get()), ncclRemoteError);
  rank.abort();
  EXPECT_EQ(rank.synchronize(), cudaSuccess) << "the all-reduce has ended";
  EXPECT_TRUE(WIFSIGNALED(peer.status()));
}

}  // namespace
}  // namespace fake_nccl_tests
