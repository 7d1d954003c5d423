#include "sluice/nccl/window_block.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../../fake_cuda/nccl_controls.hpp"
#include "cuda/device_rank.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Of a rank that is alone.
const cuda::AllGather kAlone = [](std::span<const std::byte> own) {
  return std::vector<std::vector<std::byte>>{{own.begin(), own.end()}};
};

TEST(WindowBlock, HasTheSameSizeOnAllRanks) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  std::vector<std::size_t> sizes(3);
  test::on_each_rank(3, [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::uint32_t rank = bootstrap.rank();
    const test::DeviceSlots::Size size{2 + rank, 1, 32};
    test::DeviceSlots device(pipeline, static_cast<StageId>(rank), size,
                             window_block(test::all_gather_of(bootstrap)));
    const cuda::SlotMemory& slots = device.slots();
    sizes[rank] = slots.block().size();
    EXPECT_EQ(slots.bytes().total, slots.block().size());
    EXPECT_GE(slots.block().size(), slots.slots() * slots.bytes().saved_per_slot);
  });
  // The middle stage has two edges.
  EXPECT_EQ(sizes, std::vector<std::size_t>(3, 3 * 2 * 2 * 256));
}

TEST(WindowBlock, SaysWhichLimitWouldFit) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "asks for more than a device has";
  cuda::use_device(0);
  const Pipeline pipeline = Pipeline::chain(1, 2);
  const std::vector<cuda::EdgeLayout> layouts;
  const std::vector<cuda::ChunkMemory> chunks{{std::size_t{1} << 40, 0}};
  const cuda::SlotMemoryPlan plan{pipeline, 0, layouts, chunks, cuda::kOneLane, window_block(kAlone)};
  try {
    const cuda::SlotMemory slots(plan, 100);
    FAIL() << "nothing was thrown";
  } catch (const cuda::CudaError& error) {
    EXPECT_EQ(error.code(), cudaErrorMemoryAllocation);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("100 slots of stage 0"), HasSubstr("fit")));
  }
}

TEST(WindowBlock, AnyOtherFailureIsTheLibrarys) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  cuda::use_device(0);
  fakecuda_nccl_fail("ncclMemAlloc", 1, ncclSystemError);
  EXPECT_THROW(static_cast<void>(window_block(kAlone)(256, "slots")), NcclError);
}

TEST(WindowBlock, RefusesRanksThatSaySomethingElse) {
  const cuda::AllGather odd = [](std::span<const std::byte>) {
    return std::vector<std::vector<std::byte>>(2, std::vector<std::byte>(3));
  };
  try {
    static_cast<void>(window_block(odd)(256, "slots"));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 has no NCCL transport"));
  }
}

TEST(WindowBlock, OfNothingIsNothing) { EXPECT_EQ(window_block(kAlone)(0, "slots").data(), nullptr); }

}  // namespace
}  // namespace sluice::nccl
