#include "nccl_test.hpp"

namespace fake_nccl_tests {
namespace {

using WindowTest = NcclTest;
using FakeWindowTest = FakeNcclTest;

ncclResult_t try_to_register(const Rank& rank, void* memory, std::size_t bytes,
                             int flags = NCCL_WIN_COLL_SYMMETRIC) {
  ncclWindow_t window = nullptr;
  const ncclResult_t result =
      rank.settled(nccl().comm_window_register(rank.get(), memory, bytes, &window, flags));
  EXPECT_EQ(window, nullptr);
  return result;
}

TEST_F(WindowTest, ManyAreToldApart) {
  on_ranks(2, [](const Rank& rank) {
    const WindowNumbers first(1024);
    const WindowNumbers second(2048);
    const Registered first_window(rank, first);
    const Registered second_window(rank, second);
    EXPECT_NE(first_window.get(), second_window.get());
    if (fake()) {
      EXPECT_GE(fakecuda_live("windows"), 2U);
    }
  });
}

TEST_F(FakeWindowTest, MemoryMustBeNcclsAndAligned) {
  const Rank rank(new_id(), 1, 0);
  const WindowNumbers numbers(4096);
  EXPECT_EQ(try_to_register(rank, numbers.data() + 1, 4096), ncclInvalidArgument) << "alignment";
  EXPECT_EQ(try_to_register(rank, numbers.data(), numbers.bytes() + 1), ncclInvalidArgument) << "size";
  EXPECT_EQ(try_to_register(rank, numbers.data(), 0), ncclInvalidArgument);
  EXPECT_EQ(try_to_register(rank, nullptr, 4096), ncclInvalidArgument);
  EXPECT_EQ(try_to_register(rank, numbers.data(), 4096, 0x80), ncclInvalidArgument) << "flags";
  const Numbers plain(4096);
  EXPECT_EQ(try_to_register(rank, plain.data(), plain.bytes()), ncclInvalidArgument) << "cudaMalloc's";
  EXPECT_EQ(fakecuda_take_reports(), 0U) << "the real library says so too";
}

TEST_F(FakeWindowTest, SizesMustBeTheSameOnAllRanks) {
  on_ranks(2, [this](Rank& rank) {
    const WindowNumbers numbers(1024);
    const std::size_t bytes = rank.number() == 0 ? numbers.bytes() : numbers.bytes() / 2;
    EXPECT_EQ(try_to_register(rank, numbers.data(), bytes), ncclInvalidArgument);
    meet();
    rank.abort();
  });
  EXPECT_GE(fakecuda_take_reports(), 1U);
}

TEST_F(FakeWindowTest, OneWithoutSymmetryTakesNoPuts) {
  const Rank rank(new_id(), 1, 0);
  const WindowNumbers numbers(1024);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(rank.settled(nccl().comm_window_register(rank.get(), numbers.data(), numbers.bytes(), &window,
                                                     NCCL_WIN_DEFAULT)),
            ncclSuccess);
  EXPECT_EQ(rank.put(numbers.data(), 4, window, 0), ncclInvalidArgument);
  EXPECT_EQ(nccl().comm_window_deregister(rank.get(), window), ncclSuccess);
}

TEST_F(FakeWindowTest, OneThatIsDeregisteredTakesNoPuts) {
  const Rank rank(new_id(), 1, 0);
  const WindowNumbers numbers(1024);
  ncclWindow_t window = nullptr;
  {
    const Registered registered(rank, numbers);
    window = registered.get();
  }
  EXPECT_EQ(rank.put(numbers.data(), 4, window, 0), ncclInvalidArgument);
  EXPECT_EQ(nccl().comm_window_deregister(rank.get(), window), ncclInvalidArgument);
  EXPECT_EQ(fakecuda_take_reports(), 2U);
}

TEST_F(FakeWindowTest, DeregisteredOrFreedInUseIsReported) {
  Rank rank(new_id(), 1, 0);
  void* memory = nullptr;
  ASSERT_EQ(nccl().mem_alloc(&memory, 4096), ncclSuccess);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(
      rank.settled(nccl().comm_window_register(rank.get(), memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC)),
      ncclSuccess);
  {
    Gate gate(rank.stream());
    EXPECT_EQ(rank.put(memory, 4, window, 0), ncclSuccess);
    EXPECT_EQ(nccl().comm_window_deregister(rank.get(), window), ncclSuccess);
    EXPECT_EQ(fakecuda_take_reports(), 1U);
  }
  EXPECT_EQ(fakecuda_take_reports(), 1U) << "the put comes when the window is gone";
  rank.abort();
  EXPECT_EQ(nccl().mem_free(memory), ncclSuccess);
}

TEST_F(FakeWindowTest, MemoryOfAWindowIsNotFreed) {
  const Rank rank(new_id(), 1, 0);
  void* memory = nullptr;
  ASSERT_EQ(nccl().mem_alloc(&memory, 4096), ncclSuccess);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(
      rank.settled(nccl().comm_window_register(rank.get(), memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC)),
      ncclSuccess);
  EXPECT_EQ(nccl().mem_free(memory), ncclSuccess);
  EXPECT_EQ(nccl().comm_window_deregister(rank.get(), window), ncclSuccess);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
}

TEST_F(FakeWindowTest, MemoryIsNotTheRuntimes) {
  void* memory = nullptr;
  ASSERT_EQ(nccl().mem_alloc(&memory, 4096), ncclSuccess);
  EXPECT_EQ(fakecuda_live("allocations"), 1U);
  cudaIpcMemHandle_t handle{};
  EXPECT_NE(cudaIpcGetMemHandle(&handle, memory), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(nccl().mem_free(memory), ncclSuccess);
  EXPECT_EQ(nccl().mem_free(memory), ncclInvalidArgument);
  EXPECT_EQ(fakecuda_take_reports(), 2U);
}

TEST_F(FakeWindowTest, ADestroyedCommunicatorsWindowsAreReported) {
  ncclComm_t communicator = nullptr;
  ASSERT_EQ(nccl().comm_init_rank(&communicator, 1, new_id(), 0), ncclSuccess);
  const WindowNumbers numbers(1024);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(nccl().comm_window_register(communicator, numbers.data(), numbers.bytes(), &window,
                                        NCCL_WIN_COLL_SYMMETRIC),
            ncclSuccess);
  EXPECT_EQ(nccl().comm_destroy(communicator), ncclSuccess);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
}

}  // namespace
}  // namespace fake_nccl_tests
