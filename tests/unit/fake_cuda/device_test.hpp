#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "fake_cuda/controls.hpp"
#include "number_kernels.hpp"
#include "sluice/cuda/handles.hpp"

namespace fake_cuda_tests {

using sluice::cuda::Event;
using sluice::cuda::Graph;
using sluice::cuda::GraphExec;
using sluice::cuda::Stream;

/// Whether the fake device is there, rather than a real one.
inline bool fake() { return fakecuda_fail != nullptr; }

inline Stream new_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return Stream(stream);
}

inline Event new_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
  return Event(event);
}

/// Device memory of `n` numbers.
class Numbers {
 public:
  explicit Numbers(int n) : n_(n) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), cudaSuccess);
  }
  ~Numbers() { static_cast<void>(cudaFree(data_)); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  [[nodiscard]] int* data() const { return data_; }
  [[nodiscard]] int size() const { return n_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(int); }

 private:
  int n_;
  int* data_ = nullptr;
};

/// Pinned memory of `n` numbers, zero.
class PinnedNumbers {
 public:
  explicit PinnedNumbers(int n) : n_(n) {
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&data_), bytes(), cudaHostAllocMapped), cudaSuccess);
    std::memset(data_, 0, bytes());
  }
  ~PinnedNumbers() { static_cast<void>(cudaFreeHost(data_)); }
  PinnedNumbers(const PinnedNumbers&) = delete;
  PinnedNumbers& operator=(const PinnedNumbers&) = delete;

  [[nodiscard]] int* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(int); }
  int& operator[](int i) const { return data_[i]; }

 private:
  int n_;
  int* data_ = nullptr;
};

/// Holds a stream up until it is opened; opens by itself in the end.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : stream_(stream) {
    EXPECT_EQ(cudaLaunchHostFunc(stream, wait, &open_), cudaSuccess);
  }
  ~Gate() {
    open();
    static_cast<void>(cudaStreamSynchronize(stream_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    open_.store(true);
    open_.notify_all();
  }

 private:
  static void wait(void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); }

  cudaStream_t stream_;
  std::atomic<bool> open_{false};
};

/// Every test leaves the device idle, without errors, and nothing behind.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) GTEST_SKIP() << "no device";
  }

  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    static_cast<void>(cudaGetLastError());
    if (!fake()) return;
    EXPECT_EQ(fakecuda_take_reports(), 0U);
    for (const char* kind :
         {"allocations", "host allocations", "streams", "events", "graphs", "executable graphs"}) {
      EXPECT_EQ(fakecuda_live(kind), 0U) << kind;
    }
  }
};

}  // namespace fake_cuda_tests
