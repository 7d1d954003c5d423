#include "sluice/cuda/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kTooMuch = std::numeric_limits<std::size_t>::max() / 4;

TEST(DeviceMemory, HoldsWhatIsCopiedThere) {
  const DeviceMemory memory(64, "a test");
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(memory.size(), 64U);
  std::array<char, 64> sent{};
  std::array<char, 64> got{};
  std::strcpy(sent.data(), "there and back");
  check(cudaMemcpy(memory.data(), sent.data(), sent.size(), cudaMemcpyHostToDevice), "copying");
  check(cudaMemcpy(got.data(), memory.data(), got.size(), cudaMemcpyDeviceToHost), "copying");
  EXPECT_EQ(got, sent);
}

TEST(DeviceMemory, OfNoBytesIsNone) {
  const DeviceMemory none(0, "nothing");
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(DeviceMemory().size(), 0U);
}

TEST(DeviceMemory, MovesWithItsOwner) {
  DeviceMemory from(16, "a test");
  std::byte* const at = from.data();
  const DeviceMemory to = std::move(from);
  EXPECT_EQ(to.data(), at);
}

TEST(DeviceMemory, GivesBackWhatItTookOverOnce) {
  static int released = 0;
  std::byte somewhere{};
  {
    DeviceMemory from(&somewhere, 1, [](std::byte*) noexcept { ++released; });
    EXPECT_EQ(from.size(), 1U);
    const DeviceMemory to = std::move(from);
    EXPECT_EQ(to.data(), &somewhere);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(DeviceMemory, RunningOutNamesWhatItWasForAndHowMuchIsFree) {
  try {
    const DeviceMemory memory(kTooMuch, "the slots");
    FAIL() << "allocated";
  } catch (const CudaError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(std::to_string(kTooMuch) + " bytes"), HasSubstr("the slots"),
                                    HasSubstr(" bytes free"), HasSubstr("cudaErrorMemoryAllocation")));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "nobody else stumbles over it";
}

TEST(MappedMemory, IsZeroAndSeenByBothSides) {
  const MappedMemory memory(256, "a test");
  ASSERT_NE(memory.host(), nullptr);
  EXPECT_TRUE(std::all_of(memory.host(), memory.host() + 256, [](std::byte b) { return b == std::byte{0}; }));
  const Stream stream = make_stream();
  check(cudaMemsetAsync(memory.device() + 8, 7, 4, stream.get()), "filling");
  check(cudaStreamSynchronize(stream.get()), "waiting");
  EXPECT_EQ(memory.host()[7], std::byte{0});
  EXPECT_EQ(memory.host()[8], std::byte{7});
  EXPECT_EQ(memory.host()[11], std::byte{7});
  EXPECT_EQ(memory.host()[12], std::byte{0});
}

TEST(MappedMemory, RunningOutNamesWhatItWasFor) {
  try {
    const MappedMemory memory(kTooMuch, "completion marks");
    FAIL() << "allocated";
  } catch (const CudaError& error) {
    EXPECT_THAT(error.what(), HasSubstr("completion marks"));
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace sluice::cuda
