#include <algorithm>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

using StreamsTest = DeviceTest;

TEST_F(StreamsTest, RunsWhatIsEnqueuedInOrder) {
  const Stream stream = new_stream();
  const Numbers numbers(1000);
  const PinnedNumbers result(1000);
  EXPECT_EQ(count_up(numbers.data(), 1000, 5, stream.get()), cudaSuccess);
  EXPECT_EQ(scale(numbers.data(), 1000, 3, stream.get()), cudaSuccess);
  EXPECT_EQ(
      cudaMemcpyAsync(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost, stream.get()),
      cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(result[i], 3 * (5 + i));
}

TEST_F(StreamsTest, IsNotReadyWhileWorkIsHeldUp) {
  const Stream stream = new_stream();
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaSuccess);
  Gate gate(stream.get());
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaSuccess);
}

TEST_F(StreamsTest, RunIndependently) {
  const Stream held = new_stream();
  const Stream free = new_stream();
  const PinnedNumbers mark(1);
  const Gate gate(held.get());
  EXPECT_EQ(cudaMemsetAsync(mark.data(), 0x11, sizeof(int), free.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(free.get()), cudaSuccess);
  EXPECT_EQ(mark[0], 0x11111111);
  EXPECT_EQ(cudaStreamQuery(held.get()), cudaErrorNotReady);
}

TEST_F(StreamsTest, WaitForEventsOfOthers) {
  const Stream first = new_stream();
  const Stream second = new_stream();
  const Event event = new_event();
  const Numbers numbers(10);
  const PinnedNumbers result(10);
  Gate gate(first.get());
  EXPECT_EQ(count_up(numbers.data(), 10, 7, first.get()), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second.get(), event.get(), 0), cudaSuccess);
  EXPECT_EQ(
      cudaMemcpyAsync(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost, second.get()),
      cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(second.get()), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_EQ(result[9], 16);
}

TEST_F(StreamsTest, CompleteTheirWorkAfterTheyAreDestroyed) {
  const PinnedNumbers mark(1);
  const Event event = new_event();
  {
    const Stream stream = new_stream();
    EXPECT_EQ(cudaMemsetAsync(mark.data(), 1, sizeof(int), stream.get()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaSuccess);
  }
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
  EXPECT_EQ(mark[0], 0x01010101);
}

TEST_F(StreamsTest, AreWaitedForByTheDeviceAfterTheyAreDestroyed) {
  const PinnedNumbers mark(1);
  {
    const Stream stream = new_stream();
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(cudaMemsetAsync(mark.data(), i, sizeof(int), stream.get()), cudaSuccess);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(mark[0], 0x31313131);
}

TEST_F(StreamsTest, HavePrioritiesWithinTheDevicesRange) {
  int least = 1;
  int greatest = 1;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LE(greatest, least);
  for (const int asked : {least, greatest, greatest - 100}) {
    cudaStream_t handle = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, asked), cudaSuccess);
    const Stream stream(handle);
    int priority = 1;
    EXPECT_EQ(cudaStreamGetPriority(handle, &priority), cudaSuccess);
    EXPECT_EQ(priority, std::max(asked, greatest));
    unsigned flags = 0;
    EXPECT_EQ(cudaStreamGetFlags(handle, &flags), cudaSuccess);
    EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  }
}

TEST_F(StreamsTest, BlockingOnesTakeTurnsWithTheLegacyStream) {
  const Stream stream = new_stream(cudaStreamDefault);
  const Numbers numbers(4);
  const PinnedNumbers result(4);
  {
    Gate gate(stream.get());
    EXPECT_EQ(count_up(numbers.data(), 4, 1, stream.get()), cudaSuccess);
    EXPECT_EQ(scale(numbers.data(), 4, 10, nullptr), cudaSuccess);
    EXPECT_EQ(
        cudaMemcpyAsync(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost, stream.get()),
        cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    gate.open();
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  }
  EXPECT_EQ(result[3], 40);
}

TEST_F(StreamsTest, AllEndWithTheDevice) {
  const Stream stream = new_stream();
  const PinnedNumbers mark(1);
  EXPECT_EQ(cudaMemsetAsync(mark.data(), 2, sizeof(int), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(mark[0], 0x02020202);
}

TEST_F(StreamsTest, RefuseTheRuntimeToHostFunctions) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  const Stream stream = new_stream();
  static cudaError_t seen = cudaSuccess;
  EXPECT_EQ(cudaLaunchHostFunc(
                stream.get(), [](void*) { seen = cudaDeviceSynchronize(); }, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(seen, cudaErrorNotPermitted);
}

TEST_F(StreamsTest, AreUnknownOnceDestroyed) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  cudaStream_t handle = nullptr;
  ASSERT_EQ(cudaStreamCreate(&handle), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(handle), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(handle), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamsTest, RefuseUnknownFlags) {
  cudaStream_t handle = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&handle, 0x80), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fake_cuda_tests
