#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

constexpr int kCount = 64;
constexpr const char* kPipe = "FAKE_CUDA_TESTS_PIPE";

struct Handles {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
};

/// Another process, which runs one test of this program: a process that has used the device must not be
/// forked. It reads from a pipe.
class Peer {
 public:
  explicit Peer(const std::string& test) {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    setenv(kPipe, std::to_string(pipe_[0]).c_str(), 1);
    const std::string filter = "--gtest_filter=" + test;
    std::array<char*, 4> arguments = {const_cast<char*>("peer"), const_cast<char*>(filter.c_str()),
                                      const_cast<char*>("--gtest_also_run_disabled_tests"), nullptr};
    EXPECT_EQ(posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
    unsetenv(kPipe);
    close(pipe_[0]);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(pipe_[1]); }

  void send(const Handles& handles) const {
    EXPECT_EQ(write(pipe_[1], &handles, sizeof handles), static_cast<ssize_t>(sizeof handles));
  }

  [[nodiscard]] bool succeeds() const {
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t process_ = 0;
};

Handles receive() {
  Handles handles{};
  const int pipe = std::atoi(std::getenv(kPipe));
  EXPECT_EQ(read(pipe, &handles, sizeof handles), static_cast<ssize_t>(sizeof handles));
  return handles;
}

class IpcTest : public DeviceTest {
 protected:
  static Handles handles_of(const Numbers& numbers, const Event& event) {
    Handles handles{};
    EXPECT_EQ(cudaIpcGetMemHandle(&handles.memory, numbers.data()), cudaSuccess);
    EXPECT_EQ(cudaIpcGetEventHandle(&handles.event, event.get()), cudaSuccess);
    return handles;
  }
};

/// What the other process does: waits for the owner's event, then pulls.
TEST_F(IpcTest, DISABLED_Peer) {
  if (std::getenv(kPipe) == nullptr) GTEST_SKIP() << "run by the other tests";
  const Handles handles = receive();
  const Stream stream = new_stream();
  const PinnedNumbers result(kCount);
  void* memory = nullptr;
  ASSERT_EQ(cudaIpcOpenMemHandle(&memory, handles.memory, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaIpcOpenEventHandle(&event, handles.event), cudaSuccess);
  {
    const Event opened(event);
    EXPECT_EQ(cudaStreamWaitEvent(stream.get(), event, 0), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(result.data(), memory, result.bytes(), cudaMemcpyDeviceToHost, stream.get()),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  }
  EXPECT_EQ(result[kCount - 1], 2 * (10 + kCount - 1));
  EXPECT_EQ(cudaIpcCloseMemHandle(memory), cudaSuccess);
}

TEST_F(IpcTest, AnotherProcessPullsWhatAnEventSaysIsThere) {
  const Peer peer("IpcTest.DISABLED_Peer");
  const Numbers numbers(kCount);
  const Stream stream = new_stream();
  const Event event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  {
    Gate gate(stream.get());
    EXPECT_EQ(count_up(numbers.data(), kCount, 10, stream.get()), cudaSuccess);
    EXPECT_EQ(scale(numbers.data(), kCount, 2, stream.get()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaSuccess);
    peer.send(handles_of(numbers, event));
  }
  EXPECT_TRUE(peer.succeeds());
}

TEST_F(IpcTest, AProcessDoesNotOpenItsOwn) {
  const Numbers numbers(kCount);
  const Event event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  const Handles handles = handles_of(numbers, event);
  void* memory = nullptr;
  EXPECT_NE(cudaIpcOpenMemHandle(&memory, handles.memory, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
}

TEST_F(IpcTest, OnlyWholeAllocationsAndSharedEventsHaveHandles) {
  if (!fake()) GTEST_SKIP() << "the real runtime exports the whole allocation for an address within";
  const Numbers numbers(kCount);
  const PinnedNumbers pinned(kCount);
  const Event event = new_event();
  cudaIpcMemHandle_t memory{};
  EXPECT_EQ(cudaIpcGetMemHandle(&memory, numbers.data() + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcGetMemHandle(&memory, pinned.data()), cudaErrorInvalidValue);
  cudaIpcEventHandle_t shared{};
  EXPECT_EQ(cudaIpcGetEventHandle(&shared, event.get()), cudaErrorInvalidResourceHandle);
}

TEST_F(IpcTest, WhatIsNoHandleIsRefused) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  void* memory = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&memory, cudaIpcMemHandle_t{}, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidResourceHandle);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaIpcOpenEventHandle(&event, cudaIpcEventHandle_t{}), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaIpcCloseMemHandle(&memory), cudaErrorInvalidValue);
}

TEST_F(IpcTest, MayBeForbidden) {
  if (!fake()) GTEST_SKIP() << "needs a container that forbids it";
  const Numbers numbers(kCount);
  fakecuda_allow_peers(false);
  cudaIpcMemHandle_t handle{};
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, numbers.data()), cudaErrorNotSupported);
  fakecuda_allow_peers(true);
}

}  // namespace
}  // namespace fake_cuda_tests
