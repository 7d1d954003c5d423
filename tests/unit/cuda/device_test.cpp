#include "sluice/cuda/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "../../fake_cuda/controls.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(int ordinal) {
  try {
    use_device(ordinal);
    return "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "device");
    return error.what();
  }
}

TEST(Device, TellsWhatItIs) {
  const DeviceInfo info = use_device(0);
  EXPECT_EQ(info.ordinal, 0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.compute_major, 8);
  EXPECT_GE(info.driver_version, 12000);
  EXPECT_GE(info.runtime_version, 12000);
  EXPECT_GT(info.memory_bytes, 0U);
  EXPECT_LE(info.free_bytes, info.memory_bytes);
  int current = -1;
  check(cudaGetDevice(&current), "asking");
  EXPECT_EQ(current, 0);
}

TEST(Device, RefusesOneThatIsNotThere) {
  EXPECT_THAT(refusal_of(-1), HasSubstr("-1 is not one of"));
  EXPECT_THAT(refusal_of(4711), AllOf(HasSubstr("4711 is not one of"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

/// What only the fake can be asked for.
class FakeDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  }
  void TearDown() override {
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }
};

TEST_F(FakeDevice, SaysWhatToDoWhereNoDriverIs) {
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking");
  fakecuda_driver_version(0);
  const std::string refusal = refusal_of(0);
  fakecuda_driver_version(version);
  EXPECT_THAT(refusal, AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("install one")));
}

TEST_F(FakeDevice, SaysWhatToDoWhereTheDriverIsTooOld) {
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking");
  fakecuda_driver_version(11040);
  const std::string refusal = refusal_of(0);
  fakecuda_driver_version(version);
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("up to 11.4"), HasSubstr("update the driver"), HasSubstr("at most 11.4")));
}

TEST_F(FakeDevice, SaysWhatToLookAtWhereNoDeviceIs) {
  fakecuda_fail("cudaGetDeviceCount", 1, cudaErrorNoDevice);
  EXPECT_THAT(refusal_of(0), HasSubstr("nvidia-smi"));
}

TEST_F(FakeDevice, PassesOnWhatElseTheRuntimeSays) {
  fakecuda_fail("cudaGetDeviceCount", 1, cudaErrorInitializationError);
  EXPECT_THAT(refusal_of(0), HasSubstr("cudaErrorInitializationError"));
}

TEST(DriverFunction, IsFoundByName) { EXPECT_NE(driver_function("cuStreamWriteValue32", 11070), nullptr); }

TEST(DriverFunction, ThatNoDriverHasIsAnErrorThatNamesIt) {
  try {
    static_cast<void>(driver_function("cuMakeCoffee", 12000));
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cuMakeCoffee"), HasSubstr("12.0"), HasSubstr("update the driver")));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(WriteValue, WritesWhenTheStreamGetsThere) {
  use_device(0);
  const MappedMemory words(2 * sizeof(std::uint32_t), "a test");
  const auto* const host = reinterpret_cast<const volatile std::uint32_t*>(words.host());
  auto* const device = reinterpret_cast<std::uint32_t*>(words.device());
  const Stream stream = make_stream();
  write_value(stream.get(), device, 1);
  write_value(stream.get(), device + 1, 2);
  write_value(stream.get(), device, 3);
  check(cudaStreamSynchronize(stream.get()), "waiting");
  EXPECT_EQ(host[0], 3U);
  EXPECT_EQ(host[1], 2U);
}

TEST(WriteValue, WritesDeviceMemoryToo) {
  use_device(0);
  const DeviceMemory word(sizeof(std::uint32_t), "a test");
  const Stream stream = make_stream();
  write_value(stream.get(), reinterpret_cast<std::uint32_t*>(word.data()), 42);
  std::uint32_t got = 0;
  check(cudaMemcpyAsync(&got, word.data(), sizeof got, cudaMemcpyDeviceToHost, stream.get()), "copying");
  check(cudaStreamSynchronize(stream.get()), "waiting");
  EXPECT_EQ(got, 42U);
}

}  // namespace
}  // namespace sluice::cuda
