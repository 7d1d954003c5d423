#include <array>
#include <vector>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

using CopiesTest = DeviceTest;

TEST_F(CopiesTest, GoBetweenHostAndDevice) {
  const Stream stream = new_stream();
  const Numbers first(100);
  const Numbers second(100);
  const PinnedNumbers source(100);
  const PinnedNumbers result(100);
  for (int i = 0; i < 100; ++i) source[i] = i * i;
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    EXPECT_EQ(cudaMemcpyAsync(to, from, first.bytes(), kind, stream.get()), cudaSuccess);
  };
  copy(first.data(), source.data(), cudaMemcpyHostToDevice);
  copy(second.data(), first.data(), cudaMemcpyDeviceToDevice);
  copy(result.data(), second.data(), cudaMemcpyDefault);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(result[99], 99 * 99);
}

TEST_F(CopiesTest, MayStartAndEndInsideAnAllocation) {
  const Stream stream = new_stream();
  const Numbers numbers(10);
  const PinnedNumbers result(10);
  EXPECT_EQ(count_up(numbers.data(), 10, 0, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(result.data() + 2, numbers.data() + 7, 3 * sizeof(int), cudaMemcpyDeviceToHost,
                            stream.get()),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(result.data(), numbers.data(), 0, cudaMemcpyDeviceToHost, stream.get()),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(result[1], 0);
  EXPECT_EQ(result[4], 9);
  EXPECT_EQ(result[5], 0);
}

TEST_F(CopiesTest, TakePageableMemoryBeforeTheyReturn) {
  const Stream stream = new_stream();
  const Numbers numbers(64);
  std::vector<int> source(64, 5);
  EXPECT_EQ(
      cudaMemcpyAsync(numbers.data(), source.data(), numbers.bytes(), cudaMemcpyHostToDevice, stream.get()),
      cudaSuccess);
  source.assign(64, 6);
  std::vector<int> result(64, 0);
  EXPECT_EQ(
      cudaMemcpyAsync(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost, stream.get()),
      cudaSuccess);
  EXPECT_EQ(result, std::vector<int>(64, 5));
}

TEST_F(CopiesTest, SynchronousOnesAreDoneWhenTheyReturn) {
  const Numbers numbers(16);
  EXPECT_EQ(cudaMemset(numbers.data(), 3, numbers.bytes()), cudaSuccess);
  std::array<int, 16> result{};
  EXPECT_EQ(cudaMemcpy(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(result[15], 0x03030303);
}

TEST_F(CopiesTest, GoBetweenDevices) {
  const Stream stream = new_stream();
  const Numbers from(8);
  const Numbers to(8);
  const PinnedNumbers result(8);
  EXPECT_EQ(count_up(from.data(), 8, 1, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 0, from.data(), 0, from.bytes(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(result.data(), to.data(), to.bytes(), cudaMemcpyDeviceToHost, stream.get()),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(result[7], 8);
  EXPECT_EQ(cudaMemcpyPeerAsync(to.data(), 1000, from.data(), 0, from.bytes(), stream.get()),
            cudaErrorInvalidDevice);
}

TEST_F(CopiesTest, RefuseAKindThatDoesNotFit) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  const Numbers numbers(4);
  const PinnedNumbers pinned(4);
  EXPECT_EQ(cudaMemcpyAsync(numbers.data(), numbers.data() + 2, 8, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data(), numbers.data(), 8, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidValue);
}

TEST_F(CopiesTest, BeyondAnAllocationAreReported) {
  if (!fake()) GTEST_SKIP() << "not found by every device";
  const Numbers numbers(4);
  const PinnedNumbers pinned(64);
  EXPECT_EQ(
      cudaMemcpyAsync(numbers.data(), pinned.data(), numbers.bytes() + 1, cudaMemcpyHostToDevice, nullptr),
      cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(numbers.data() + 1, 0, numbers.bytes(), nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data() + 63, numbers.data(), 8, cudaMemcpyDeviceToHost, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(fakecuda_take_reports(), 3U);
}

TEST_F(CopiesTest, OfFreedMemoryAreReported) {
  if (!fake()) GTEST_SKIP() << "not found by every device";
  void* gone = nullptr;
  ASSERT_EQ(cudaMalloc(&gone, 64), cudaSuccess);
  ASSERT_EQ(cudaFree(gone), cudaSuccess);
  const PinnedNumbers pinned(16);
  EXPECT_EQ(cudaMemcpyAsync(pinned.data(), gone, 64, cudaMemcpyDeviceToHost, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
}

}  // namespace
}  // namespace fake_cuda_tests
