#pragma once

#include <barrier>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda/nccl_controls.hpp"
#include "nccl_library.hpp"
#include "unit/fake_cuda/device_test.hpp"

namespace fake_nccl_tests {

using fake_cuda_tests::Event;
using fake_cuda_tests::fake;
using fake_cuda_tests::Gate;
using fake_cuda_tests::GraphExec;
using fake_cuda_tests::new_event;
using fake_cuda_tests::new_stream;
using fake_cuda_tests::Numbers;
using fake_cuda_tests::PinnedNumbers;
using fake_cuda_tests::Stream;

/// A fake device for each rank, where there is a fake one: set before the first call to it.
inline const int kFakeDevices = setenv("FAKECUDA_DEVICES", "4", 0);

inline ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(nccl().get_unique_id(&id), ncclSuccess);
  return id;
}

/// What a call that may go on in the background comes to.
inline ncclResult_t settled(ncclComm_t communicator, ncclResult_t result) {
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const ncclResult_t asked = nccl().comm_get_async_error(communicator, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

/// Polls until there is an asynchronous error.
inline ncclResult_t next_error(ncclComm_t communicator) {
  ncclResult_t error = ncclSuccess;
  while (error == ncclSuccess || error == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    EXPECT_EQ(nccl().comm_get_async_error(communicator, &error), ncclSuccess);
  }
  return error;
}

/// One rank's end of a communicator, and a stream.
class Rank {
 public:
  Rank(const ncclUniqueId& id, int ranks, int rank, bool blocking = false) : ranks_(ranks), rank_(rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    const ncclResult_t result = nccl().comm_init_rank_config(&communicator_, ranks, id, rank, &config);
    EXPECT_EQ(settled(result), ncclSuccess);
  }
  ~Rank() {
    if (communicator_ == nullptr) return;
    EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
    EXPECT_EQ(nccl().comm_destroy(communicator_), ncclSuccess);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] ncclComm_t get() const { return communicator_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] int number() const { return rank_; }
  [[nodiscard]] int peer() const { return (rank_ + 1) % ranks_; }
  [[nodiscard]] ncclResult_t settled(ncclResult_t result) const {
    return fake_nccl_tests::settled(communicator_, result);
  }
  [[nodiscard]] cudaError_t synchronize() const { return cudaStreamSynchronize(stream()); }

  [[nodiscard]] ncclResult_t put(const void* source, std::size_t bytes, ncclWindow_t window,
                                 std::size_t offset) const {
    return settled(nccl().put_signal(source, bytes, ncclUint8, peer(), window, offset, 0, 0, 0, communicator_,
                                     stream()));
  }
  [[nodiscard]] ncclResult_t wait(int signals) const {
    ncclWaitSignalDesc_t wanted{signals, peer(), 0, 0};
    return settled(nccl().wait_signal(1, &wanted, communicator_, stream()));
  }
  void abort() { EXPECT_EQ(nccl().comm_abort(std::exchange(communicator_, nullptr)), ncclSuccess); }

 private:
  int ranks_;
  int rank_;
  Stream stream_ = new_stream();
  ncclComm_t communicator_ = nullptr;
};

/// Numbers in memory that NCCL can make a window of, copied in and out on a stream.
class WindowNumbers {
 public:
  explicit WindowNumbers(int n) : n_(n) {
    void* memory = nullptr;
    EXPECT_EQ(nccl().mem_alloc(&memory, bytes()), ncclSuccess);
    data_ = static_cast<int*>(memory);
  }
  ~WindowNumbers() { EXPECT_EQ(nccl().mem_free(data_), ncclSuccess); }
  WindowNumbers(const WindowNumbers&) = delete;
  WindowNumbers& operator=(const WindowNumbers&) = delete;

  [[nodiscard]] int* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(int); }

 private:
  int n_;
  int* data_ = nullptr;
};

/// All of a `WindowNumbers` as a window.
class Registered {
 public:
  Registered(const Rank& rank, const WindowNumbers& numbers) : rank_(rank) {
    EXPECT_EQ(rank.settled(nccl().comm_window_register(rank.get(), numbers.data(), numbers.bytes(), &window_,
                                                       NCCL_WIN_COLL_SYMMETRIC)),
              ncclSuccess);
    EXPECT_NE(window_, nullptr);
  }
  ~Registered() {
    if (rank_.get() == nullptr) return;
    EXPECT_EQ(nccl().comm_window_deregister(rank_.get(), window_), ncclSuccess);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  [[nodiscard]] ncclWindow_t get() const { return window_; }

 private:
  const Rank& rank_;
  ncclWindow_t window_ = nullptr;
};

/// Ranks are threads. The real library wants a device for each of them.
class NcclTest : public fake_cuda_tests::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (!nccl().complete) GTEST_SKIP() << "no NCCL with one-sided calls";
    EXPECT_EQ(cudaGetDeviceCount(&devices_), cudaSuccess);
    if (!fake() && devices_ < 2) GTEST_SKIP() << "needs two devices";
  }

  void TearDown() override {
    DeviceTest::TearDown();
    if (IsSkipped() || !fake()) return;
    EXPECT_EQ(fakecuda_live("communicators"), 0U);
    EXPECT_EQ(fakecuda_live("windows"), 0U);
  }

  void on_threads(int count, const std::function<void(int)>& body) const {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_EQ(cudaSetDevice(i % devices_), cudaSuccess);
        body(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// Runs `body` for each rank of one communicator.
  void on_ranks(int count, const std::function<void(Rank&)>& body, bool blocking = false) const {
    const ncclUniqueId id = new_id();
    on_threads(count, [&](int i) {
      Rank rank(id, count, i, blocking);
      body(rank);
    });
  }

  /// The two ranks of a test wait for each other.
  void meet() { both_.arrive_and_wait(); }

  int devices_ = 0;

 private:
  std::barrier<> both_{2};
};

/// What only the fake can be asked for.
class FakeNcclTest : public NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    if (!IsSkipped() && !fake())
      GTEST_SKIP() << "asks the fake for what a real library does not do on demand";
  }
};

}  // namespace fake_nccl_tests
