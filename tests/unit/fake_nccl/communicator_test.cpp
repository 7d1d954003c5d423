#include <array>
#include <cstring>
#include <string>

#include "nccl_test.hpp"

namespace fake_nccl_tests {
namespace {

using CommunicatorTest = NcclTest;
using FakeCommunicatorTest = FakeNcclTest;

TEST_F(CommunicatorTest, TheVersionIsOneWithOneSidedCalls) {
  int version = 0;
  EXPECT_EQ(nccl().get_version(&version), ncclSuccess);
  EXPECT_GE(version, NCCL_VERSION(2, 29, 0));
}

TEST_F(CommunicatorTest, ErrorsHaveTexts) {
  for (int code = ncclSuccess; code < ncclNumResults; ++code) {
    EXPECT_STRNE(nccl().get_error_string(static_cast<ncclResult_t>(code)), "") << code;
  }
}

TEST_F(CommunicatorTest, RanksMeet) {
  for (const bool blocking : {true, false}) {
    on_ranks(
        2,
        [&](const Rank& rank) {
          int count = 0;
          int number = -1;
          int device = -1;
          EXPECT_EQ(nccl().comm_count(rank.get(), &count), ncclSuccess);
          EXPECT_EQ(nccl().comm_user_rank(rank.get(), &number), ncclSuccess);
          EXPECT_EQ(nccl().comm_cu_device(rank.get(), &device), ncclSuccess);
          EXPECT_EQ(count, 2);
          EXPECT_EQ(number, rank.number());
          EXPECT_EQ(device, rank.number() % devices_);
        },
        blocking);
  }
}

TEST_F(CommunicatorTest, OneThreadMakesAllRanksInAGroup) {
  const ncclUniqueId id = new_id();
  std::array<ncclComm_t, 2> communicators{};
  EXPECT_EQ(nccl().group_start(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudaSetDevice(i % devices_), cudaSuccess);
    EXPECT_EQ(nccl().comm_init_rank(&communicators.at(static_cast<std::size_t>(i)), 2, id, i), ncclSuccess);
  }
  EXPECT_EQ(nccl().group_end(), ncclSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  for (ncclComm_t communicator : communicators) EXPECT_EQ(nccl().comm_destroy(communicator), ncclSuccess);
}

TEST_F(CommunicatorTest, ACallThatDoesNotBlockIsInProgress) {
  const ncclUniqueId id = new_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(nccl().comm_init_rank_config(&communicator, 2, id, 0, &config), ncclInProgress);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(nccl().comm_get_async_error(communicator, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress) << "its peer is not there";
  int count = 0;
  EXPECT_EQ(nccl().comm_count(communicator, &count), ncclInvalidArgument) << "not ready";
  EXPECT_EQ(nccl().comm_abort(communicator), ncclSuccess) << "without the peer";
}

TEST_F(CommunicatorTest, BadArgumentsAreRefused) {
  const ncclUniqueId id = new_id();
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&communicator, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(nccl().comm_init_rank(&communicator, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(nccl().comm_init_rank(nullptr, 2, id, 0), ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 7;
  EXPECT_EQ(nccl().comm_init_rank_config(&communicator, 2, id, 0, &config), ncclInvalidArgument);
  int count = 0;
  EXPECT_EQ(nccl().comm_count(nullptr, &count), ncclInvalidArgument);
  EXPECT_EQ(nccl().group_end(), ncclInvalidUsage) << "no group";
}

TEST_F(CommunicatorTest, FinalizedWhenAllIsQuiet) {
  on_ranks(2, [](Rank& rank) { EXPECT_EQ(rank.settled(nccl().comm_finalize(rank.get())), ncclSuccess); });
}

TEST_F(CommunicatorTest, SplitsByColourInTheOrderOfKeys) {
  if (!fake() && devices_ < 4) GTEST_SKIP() << "needs four devices";
  on_ranks(4, [](const Rank& rank) {
    ncclComm_t half = nullptr;
    const int colour = rank.number() % 2;
    EXPECT_EQ(rank.settled(nccl().comm_split(rank.get(), colour, -rank.number(), &half, nullptr)),
              ncclSuccess);
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(settled(half, ncclInProgress), ncclSuccess);
    int count = 0;
    int number = -1;
    EXPECT_EQ(nccl().comm_count(half, &count), ncclSuccess);
    EXPECT_EQ(nccl().comm_user_rank(half, &number), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(number, rank.number() < 2 ? 1 : 0) << "the highest rank has the lowest key";
    EXPECT_EQ(nccl().comm_destroy(half), ncclSuccess);
  });
}

TEST_F(CommunicatorTest, SplitsLeaveOutWhoHasNoColour) {
  on_ranks(2, [](const Rank& rank) {
    ncclComm_t part = nullptr;
    const int colour = rank.number() == 0 ? 3 : NCCL_SPLIT_NOCOLOR;
    EXPECT_EQ(rank.settled(nccl().comm_split(rank.get(), colour, 0, &part, nullptr)), ncclSuccess);
    EXPECT_EQ(part != nullptr, rank.number() == 0);
    if (part == nullptr) return;
    EXPECT_EQ(settled(part, ncclInProgress), ncclSuccess);
    EXPECT_EQ(nccl().comm_destroy(part), ncclSuccess);
  });
}

TEST_F(FakeCommunicatorTest, AnAbortedPeerIsARemoteError) {
  on_ranks(2, [this](Rank& rank) {
    meet();
    if (rank.number() == 1) {
      rank.abort();
      return;
    }
    EXPECT_EQ(next_error(rank.get()), ncclRemoteError);
    EXPECT_EQ(nccl().comm_finalize(rank.get()), ncclRemoteError) << "of no more use";
    rank.abort();
  });
}

TEST_F(FakeCommunicatorTest, OneThatWasDestroyedIsRecognised) {
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&communicator, 1, new_id(), 0), ncclSuccess);
  EXPECT_EQ(nccl().comm_destroy(communicator), ncclSuccess);
  EXPECT_EQ(nccl().comm_abort(communicator), ncclInvalidArgument);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  EXPECT_NE(std::string(nccl().get_last_error(nullptr)).find("destroyed"), std::string::npos);
}

TEST_F(FakeCommunicatorTest, NoRankJoinsTwice) {
  const ncclUniqueId id = new_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  EXPECT_EQ(nccl().comm_init_rank_config(&first, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(nccl().comm_init_rank_config(&second, 2, id, 0, &config), ncclInvalidUsage);
  EXPECT_EQ(nccl().comm_init_rank_config(&second, 3, id, 1, &config), ncclInvalidUsage) << "of how many?";
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(nccl().comm_abort(first), ncclSuccess);
  EXPECT_EQ(fakecuda_take_reports(), 2U);
}

TEST_F(FakeCommunicatorTest, WhatIsNoUniqueIdIsRefused) {
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&communicator, 1, ncclUniqueId{}, 0), ncclInvalidArgument);
}

TEST_F(FakeCommunicatorTest, TheNthCallFailsAndIsNotCarriedOut) {
  fakecuda_nccl_fail("ncclCommInitRank", 2, ncclSystemError);
  ncclComm_t first = nullptr;
  ncclComm_t second = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&first, 1, new_id(), 0), ncclSuccess);
  EXPECT_EQ(nccl().comm_init_rank(&second, 1, new_id(), 0), ncclSystemError);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(nccl().comm_destroy(first), ncclSuccess);
}

TEST_F(FakeCommunicatorTest, OneBreaksWhenItIsAskedTo) {
  Rank rank(new_id(), 1, 0);
  const Rank other(new_id(), 1, 0);
  fakecuda_nccl_break(rank.get(), ncclInternalError);
  EXPECT_EQ(next_error(rank.get()), ncclInternalError);
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(nccl().comm_get_async_error(other.get(), &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  rank.abort();
}

TEST_F(FakeCommunicatorTest, AllBreakWhenTheyAreAskedTo) {
  Rank rank(new_id(), 1, 0);
  fakecuda_nccl_break(nullptr, ncclSystemError);
  EXPECT_EQ(next_error(rank.get()), ncclSystemError);
  rank.abort();
}

TEST_F(FakeCommunicatorTest, TheVersionIsTheOneAskedFor) {
  fakecuda_nccl_version(22800);
  int version = 0;
  EXPECT_EQ(nccl().get_version(&version), ncclSuccess);
  EXPECT_EQ(version, 22800);
  fakecuda_nccl_version(0);
  EXPECT_EQ(nccl().get_version(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
}

TEST_F(FakeCommunicatorTest, WithoutADriverThereIsNone) {
  fakecuda_driver_version(0);
  ncclComm_t communicator = nullptr;
  void* memory = nullptr;
  EXPECT_EQ(nccl().comm_init_rank(&communicator, 1, new_id(), 0), ncclUnhandledCudaError);
  EXPECT_EQ(nccl().mem_alloc(&memory, 4096), ncclUnhandledCudaError);
  fakecuda_driver_version(CUDART_VERSION);
}

TEST_F(FakeCommunicatorTest, RanksThatMakeDifferentCallsAreReported) {
  on_ranks(2, [this](Rank& rank) {
    const WindowNumbers numbers(4);
    ncclComm_t part = nullptr;
    ncclWindow_t window = nullptr;
    const ncclResult_t begun = rank.number() == 0
                                   ? nccl().comm_split(rank.get(), 0, 0, &part, nullptr)
                                   : nccl().comm_window_register(rank.get(), numbers.data(), numbers.bytes(),
                                                                 &window, NCCL_WIN_COLL_SYMMETRIC);
    EXPECT_EQ(rank.settled(begun), ncclInvalidUsage);
    meet();
    rank.abort();
  });
  EXPECT_GE(fakecuda_take_reports(), 1U);
}

}  // namespace
}  // namespace fake_nccl_tests
