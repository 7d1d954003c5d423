#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

using KernelsTest = DeviceTest;

TEST_F(KernelsTest, GetTheirArgumentsAsTheyWereAtTheLaunch) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(4);
  Gate gate(stream.get());
  for (int first : {10, 20}) {
    EXPECT_EQ(count_up(numbers.data() + (first / 10 - 1) * 2, 2, first, stream.get()), cudaSuccess);
  }
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[1], 11);
  EXPECT_EQ(numbers[3], 21);
}

TEST_F(KernelsTest, AreLaunchedByBracketsToo) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(4);
  EXPECT_EQ(count_up_by_brackets(numbers.data(), 4, 6, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[3], 9);
}

TEST_F(KernelsTest, TakeOneThousandAndTwentyFourThreadsABlock) {
  const PinnedNumbers numbers(1);
  EXPECT_EQ(launch_with_block(numbers.data(), 1024, nullptr), cudaSuccess);
  EXPECT_EQ(launch_with_block(numbers.data(), 1025, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_with_block(numbers.data(), 0, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "a launch refused does not make the device unusable";
}

TEST_F(KernelsTest, WithoutAStandInAreRefusedByName) {
  if (!fake()) GTEST_SKIP() << "a real device needs no stand-in";
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch_unknown(nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("fake_cuda_tests::unknown_kernel()"),
            std::string::npos);
}

}  // namespace
}  // namespace fake_cuda_tests
