#include <array>
#include <thread>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

using MemoryTest = DeviceTest;

TEST_F(MemoryTest, IsTakenAndGivenBack) {
  std::size_t before = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  EXPECT_LE(before, total);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64U << 20U), cudaSuccess);
  std::size_t during = 0;
  EXPECT_EQ(cudaMemGetInfo(&during, &total), cudaSuccess);
  EXPECT_LE(during + (64U << 20U), before);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(MemoryTest, RunsOut) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the error is not one that lasts";
}

TEST_F(MemoryTest, PinnedIsSeenByTheDevice) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(8);
  void* address = nullptr;
  ASSERT_EQ(cudaHostGetDevicePointer(&address, numbers.data(), 0), cudaSuccess);
  EXPECT_EQ(count_up(static_cast<int*>(address), 8, 3, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[7], 10);
}

TEST_F(MemoryTest, OfTheProgramCanBePinned) {
  alignas(4096) static std::array<int, 1024> numbers{};
  ASSERT_EQ(cudaHostRegister(numbers.data(), sizeof numbers, cudaHostRegisterMapped), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(numbers.data(), sizeof numbers, 0), cudaErrorHostMemoryAlreadyRegistered);
  static_cast<void>(cudaGetLastError());
  void* address = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&address, numbers.data(), 0), cudaSuccess);
  EXPECT_EQ(count_up(static_cast<int*>(address), 1024, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(numbers[1023], 1023);
  EXPECT_EQ(cudaHostUnregister(numbers.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(numbers.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(MemoryTest, IsTellableFromItsAddress) {
  const Numbers device(4);
  const PinnedNumbers pinned(4);
  int own = 0;
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, device.data() + 1), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.devicePointer, device.data() + 1);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pinned.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, &own), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(MemoryTest, IsTakenInTheOrderOfAStream) {
  const Stream stream = new_stream();
  const PinnedNumbers result(16);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, result.bytes(), stream.get()), cudaSuccess);
  EXPECT_EQ(count_up(static_cast<int*>(memory), 16, 2, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(result.data(), memory, result.bytes(), cudaMemcpyDeviceToHost, stream.get()),
            cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(memory, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(result[15], 17);
}

TEST_F(MemoryTest, OfTheDeviceCannotBeReadByTheHost) {
  if (!fake()) GTEST_SKIP() << "a death test would fork a process that uses the device";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        void* memory = nullptr;
        static_cast<void>(cudaMalloc(&memory, 64));
        *static_cast<volatile int*>(memory) = 1;
      },
      "");
}

TEST_F(MemoryTest, IsFilledWithAPatternAtFirst) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  const Numbers numbers(1);
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, numbers.data(), sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(static_cast<unsigned>(value), 0xCDCDCDCDU);
}

TEST_F(MemoryTest, FreedTwiceIsReported) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  EXPECT_EQ(cudaFree(static_cast<char*>(memory) + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  int own = 0;
  EXPECT_EQ(cudaFreeHost(&own), cudaErrorInvalidValue);
  EXPECT_EQ(fakecuda_take_reports(), 3U);
}

TEST_F(MemoryTest, PinnedFreedUnderACopyIsReported) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  const Stream stream = new_stream();
  const Numbers numbers(16);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, numbers.bytes(), cudaHostAllocDefault), cudaSuccess);
  fakecuda_hang(stream.get());
  EXPECT_EQ(cudaMemcpyAsync(numbers.data(), pinned, numbers.bytes(), cudaMemcpyHostToDevice, stream.get()),
            cudaSuccess);
  std::thread resume([&] {
    while (fakecuda_take_reports() == 0) std::this_thread::yield();
    fakecuda_resume(stream.get());
  });
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  resume.join();
}

TEST_F(MemoryTest, WrittenPastItsEndIsReported) {
  if (!fake()) GTEST_SKIP() << "not found by every device";
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4 * sizeof(int)), cudaSuccess);
  EXPECT_EQ(count_up(static_cast<int*>(memory), 5, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
}

TEST_F(MemoryTest, GoneBeforeAKernelRunsIsReported) {
  if (!fake()) GTEST_SKIP() << "leaves a real device unusable";
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 4 * sizeof(int)), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  static_cast<void>(count_up(static_cast<int*>(memory), 4, 0, nullptr));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorIllegalAddress) << "the device is unusable from then on";
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  fakecuda_recover();
}

}  // namespace
}  // namespace fake_cuda_tests
