#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

class FaultsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!fake()) GTEST_SKIP() << "a real device fails when it likes";
  }
};

TEST_F(FaultsTest, TheNthCallFailsAndIsNotCarriedOut) {
  fakecuda_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
  const Numbers first(4);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorMemoryAllocation);
  EXPECT_EQ(fakecuda_live_allocations(), 1U);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  const Numbers third(4);
}

TEST_F(FaultsTest, AFailedLaunchLeavesTheDeviceUnusable) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  fakecuda_fail("__cudaLaunchKernel", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(count_up_by_brackets(numbers.data(), 1, 1, stream.get()), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "not forgotten when it is told";
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaMemsetAsync(numbers.data(), 1, 4, stream.get()), cudaErrorLaunchFailure);
  fakecuda_recover();
  EXPECT_EQ(count_up(numbers.data(), 1, 1, stream.get()), cudaSuccess);
}

TEST_F(FaultsTest, WorkThatFailsWhileItRunsShowsLater) {
  const Stream stream = new_stream();
  const Event event = new_event();
  const PinnedNumbers numbers(1);
  Gate gate(stream.get());
  fakecuda_fail("execute", 2, cudaErrorIllegalAddress);
  EXPECT_EQ(count_up(numbers.data(), 1, 1, stream.get()), cudaSuccess);
  EXPECT_EQ(count_up(numbers.data(), 1, 2, stream.get()), cudaSuccess);
  EXPECT_EQ(count_up(numbers.data(), 1, 3, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaSuccess);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaErrorIllegalAddress);
  EXPECT_LT(numbers[0], 3) << "nothing runs after it";
  fakecuda_recover();
}

TEST_F(FaultsTest, AHungStreamRunsNothingUntilItIsResumed) {
  const Stream hung = new_stream();
  const Stream other = new_stream();
  const PinnedNumbers numbers(2);
  fakecuda_hang(hung.get());
  EXPECT_EQ(count_up(numbers.data(), 1, 1, hung.get()), cudaSuccess);
  EXPECT_EQ(count_up(numbers.data() + 1, 1, 2, other.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(hung.get()), cudaErrorNotReady);
  fakecuda_resume(hung.get());
  EXPECT_EQ(cudaStreamSynchronize(hung.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 1);
}

TEST_F(FaultsTest, DelaysChangeNoResult) {
  fakecuda_seed(7);
  fakecuda_delay_us(200);
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(count_up(numbers.data(), 1, i, stream.get()), cudaSuccess);
    EXPECT_EQ(scale(numbers.data(), 1, 2, stream.get()), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 38);
  fakecuda_delay_us(0);
}

TEST_F(FaultsTest, LeaksAreCounted) {
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(fakecuda_live("allocations"), 1U);
  EXPECT_EQ(fakecuda_live("events"), 1U);
  EXPECT_EQ(fakecuda_live("no such kind"), 0U);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

}  // namespace
}  // namespace fake_cuda_tests
