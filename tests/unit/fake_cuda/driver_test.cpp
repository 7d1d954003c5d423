#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

class DriverTest : public DeviceTest {
 protected:
  using WriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

  static void* entry_point(const char* name, unsigned version, cudaDriverEntryPointQueryResult& status) {
    void* function = nullptr;
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &status),
              cudaSuccess);
    return function;
  }

  template <typename Function>
  static Function function(const char* name) {
    auto status = cudaDriverEntryPointSymbolNotFound;
    auto* const found = reinterpret_cast<Function>(entry_point(name, 12000, status));
    EXPECT_EQ(status, cudaDriverEntryPointSuccess);
    return found;
  }

  static CUdeviceptr address(const PinnedNumbers& numbers) {
    void* device = nullptr;
    EXPECT_EQ(cudaHostGetDevicePointer(&device, numbers.data(), 0), cudaSuccess);
    return reinterpret_cast<CUdeviceptr>(device);
  }
};

TEST_F(DriverTest, FindsFunctionsByVersion) {
  auto status = cudaDriverEntryPointSuccess;
  EXPECT_EQ(entry_point("cuNoSuchFunction", 12000, status), nullptr);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(entry_point("cuStreamWriteValue32", 7000, status), nullptr);
  EXPECT_EQ(status, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_NE(entry_point("cuStreamWriteValue32", 12000, status), nullptr);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
}

TEST_F(DriverTest, StreamsWriteValuesBehindTheirWork) {
  const auto write = function<WriteValue>("cuStreamWriteValue32");
  const Stream stream = new_stream();
  const PinnedNumbers flag(1);
  const PinnedNumbers numbers(100);
  EXPECT_EQ(count_up(numbers.data(), 100, 1, stream.get()), cudaSuccess);
  EXPECT_EQ(write(stream.get(), address(flag), 7, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_SUCCESS);
  while (std::atomic_ref(flag[0]).load(std::memory_order_acquire) != 7) {
  }
  EXPECT_EQ(numbers[99], 100);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
}

TEST_F(DriverTest, StreamsWaitForValues) {
  const auto wait = function<WaitValue>("cuStreamWaitValue32");
  const Stream stream = new_stream();
  const PinnedNumbers flag(1);
  const PinnedNumbers numbers(1);
  EXPECT_EQ(wait(stream.get(), address(flag), 3, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  EXPECT_EQ(scale(numbers.data(), 1, 6, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  numbers[0] = 7;
  std::atomic_ref(flag[0]).store(5, std::memory_order_release);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 42);
}

TEST_F(DriverTest, OneStreamsValueWakesAnother) {
  const auto write = function<WriteValue>("cuStreamWriteValue32");
  const auto wait = function<WaitValue>("cuStreamWaitValue32");
  const Stream first = new_stream();
  const Stream second = new_stream();
  const PinnedNumbers flag(1);
  const PinnedNumbers result(8);
  const Numbers numbers(8);
  EXPECT_EQ(wait(second.get(), address(flag), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_EQ(
      cudaMemcpyAsync(result.data(), numbers.data(), numbers.bytes(), cudaMemcpyDeviceToHost, second.get()),
      cudaSuccess);
  EXPECT_EQ(count_up(numbers.data(), 8, 30, first.get()), cudaSuccess);
  EXPECT_EQ(write(first.get(), address(flag), 1, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_EQ(result[7], 37);
}

TEST_F(DriverTest, RefusesAddressesItDoesNotKnow) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  const auto write = function<WriteValue>("cuStreamWriteValue32");
  int own = 0;
  EXPECT_EQ(write(nullptr, reinterpret_cast<CUdeviceptr>(&own), 1, 0), CUDA_ERROR_INVALID_VALUE);
  const PinnedNumbers flag(1);
  EXPECT_EQ(write(nullptr, address(flag) + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, TellsItsVersionAndTheRuntimes) {
  int driver = 0;
  int runtime = 0;
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_GE(driver / 1000, runtime / 1000);
}

TEST_F(DriverTest, TellsWhatADeviceIs) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  int major = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(properties.major, major);
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 1000), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
}

TEST_F(DriverTest, ThatIsTooOldIsSaidSo) {
  if (!fake()) GTEST_SKIP() << "needs another driver";
  for (const int version : {0, 11080}) {
    fakecuda_driver_version(version);
    int devices = -1;
    EXPECT_EQ(cudaGetDeviceCount(&devices), cudaErrorInsufficientDriver);
    EXPECT_EQ(devices, 0);
    EXPECT_EQ(cudaSetDevice(0), cudaErrorInsufficientDriver);
  }
  fakecuda_driver_version(CUDART_VERSION);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

}  // namespace
}  // namespace fake_cuda_tests
