#include "nccl_test.hpp"

namespace fake_nccl_tests {
namespace {

constexpr int kCount = 1024;

using OneSidedTest = NcclTest;
using FakeOneSidedTest = FakeNcclTest;
using fake_cuda_tests::count_up;

/// What the device memory holds now, for this rank's stream.
/// @param numbers the caller's, because to free pinned memory is to wait for the device, and so for a peer
void expect_counts_up(const Rank& rank, const int* device, int first, const PinnedNumbers& numbers) {
  EXPECT_EQ(cudaMemcpyAsync(numbers.data(), device, numbers.bytes(), cudaMemcpyDeviceToHost, rank.stream()),
            cudaSuccess);
  EXPECT_EQ(rank.synchronize(), cudaSuccess);
  EXPECT_EQ(numbers[0], first);
  EXPECT_EQ(numbers[kCount - 1], first + kCount - 1);
}

TEST_F(OneSidedTest, WhoWaitsForTheSignalSeesWhatWasPut) {
  on_ranks(2, [](const Rank& rank) {
    const PinnedNumbers seen(kCount);
    const WindowNumbers numbers(2 * kCount);
    const Registered window(rank, numbers);
    const std::size_t half = numbers.bytes() / 2;
    EXPECT_EQ(count_up(numbers.data(), kCount, 100 * rank.number(), rank.stream()), cudaSuccess);
    EXPECT_EQ(rank.put(numbers.data(), half, window.get(), half), ncclSuccess);
    EXPECT_EQ(rank.wait(1), ncclSuccess);
    expect_counts_up(rank, numbers.data() + kCount, 100 * rank.peer(), seen);
  });
}

TEST_F(OneSidedTest, AnArmedWaitEndsWithTheSignal) {
  on_ranks(2, [](const Rank& rank) {
    const PinnedNumbers seen(kCount);
    const WindowNumbers numbers(2 * kCount);
    const Registered window(rank, numbers);
    const std::size_t half = numbers.bytes() / 2;
    for (int i = 0; i < 4; ++i) {
      if (rank.number() == 0) {
        EXPECT_EQ(count_up(numbers.data(), kCount, i, rank.stream()), cudaSuccess);
        EXPECT_EQ(rank.put(numbers.data(), half, window.get(), half), ncclSuccess);
        EXPECT_EQ(rank.wait(1), ncclSuccess) << "read by the peer";
      } else {
        EXPECT_EQ(rank.wait(1), ncclSuccess);
        expect_counts_up(rank, numbers.data() + kCount, i, seen);
        EXPECT_EQ(rank.settled(nccl().signal(0, 0, 0, 0, rank.get(), rank.stream())), ncclSuccess);
      }
    }
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
  });
}

TEST_F(OneSidedTest, SignalsAreCountedPerPeer) {
  on_ranks(2, [](const Rank& rank) {
    const WindowNumbers numbers(1);
    const Registered window(rank, numbers);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(rank.settled(nccl().signal(rank.peer(), 0, 0, 0, rank.get(), rank.stream())), ncclSuccess);
    }
    EXPECT_EQ(rank.wait(2), ncclSuccess);
    EXPECT_EQ(rank.wait(3), ncclSuccess);
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
  });
}

TEST_F(OneSidedTest, AbortEndsAWaitWithoutASignal) {
  on_ranks(2, [this](Rank& rank) {
    const WindowNumbers numbers(1);
    {
      const Registered window(rank, numbers);
      if (rank.number() == 0) {
        EXPECT_EQ(rank.wait(1), ncclSuccess);
        EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
      }
      meet();
      rank.abort();
    }
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
  });
}

TEST_F(OneSidedTest, LimitsAreRefused) {
  on_ranks(2, [](const Rank& rank) {
    const WindowNumbers numbers(kCount);
    const Registered window(rank, numbers);
    const auto put = [&](const void* source, int peer, int signal, int context, unsigned flags) {
      return rank.settled(nccl().put_signal(source, 4, ncclUint8, peer, window.get(), 0, signal, context,
                                            flags, rank.get(), rank.stream()));
    };
    EXPECT_EQ(put(numbers.data(), 2, 0, 0, 0), ncclInvalidArgument) << "peer";
    EXPECT_EQ(put(numbers.data(), -1, 0, 0, 0), ncclInvalidArgument) << "peer";
    EXPECT_EQ(put(numbers.data(), 0, 1, 0, 0), ncclInvalidArgument) << "signal index";
    EXPECT_EQ(put(numbers.data(), 0, 0, 1, 0), ncclInvalidArgument) << "context";
    EXPECT_EQ(put(numbers.data(), 0, 0, 0, 1), ncclInvalidArgument) << "flags";
    EXPECT_EQ(put(nullptr, 0, 0, 0, 0), ncclInvalidArgument) << "source";
    const Numbers outside(4);
    EXPECT_EQ(put(outside.data(), 0, 0, 0, 0), ncclInvalidArgument) << "source outside of windows";
    EXPECT_EQ(rank.settled(nccl().signal(0, 1, 0, 0, rank.get(), rank.stream())), ncclInvalidArgument);
    EXPECT_EQ(nccl().wait_signal(0, nullptr, rank.get(), rank.stream()), ncclInvalidArgument);
    ncclWaitSignalDesc_t wanted{0, 0, 0, 0};
    EXPECT_EQ(nccl().wait_signal(1, &wanted, rank.get(), rank.stream()), ncclInvalidArgument) << "count";
    wanted = {1, 0, 1, 0};
    EXPECT_EQ(nccl().wait_signal(1, &wanted, rank.get(), rank.stream()), ncclInvalidArgument) << "index";
  });
}

TEST_F(FakeOneSidedTest, PutsBeyondAWindowAreReported) {
  on_ranks(2, [](const Rank& rank) {
    const WindowNumbers numbers(kCount);
    const Registered window(rank, numbers);
    EXPECT_EQ(rank.put(numbers.data(), 8, window.get(), numbers.bytes() - 4), ncclInvalidArgument);
    EXPECT_EQ(rank.put(numbers.data() + kCount - 1, 8, window.get(), 0), ncclInvalidArgument);
    EXPECT_EQ(rank.put(numbers.data(), 8, nullptr, 0), ncclInvalidArgument);
  });
  EXPECT_EQ(fakecuda_take_reports(), 4U);
}

TEST_F(FakeOneSidedTest, AnOldDriverHasNoOneSidedCalls) {
  const Rank rank(new_id(), 1, 0);
  fakecuda_driver_version(12040);
  EXPECT_EQ(nccl().signal(0, 0, 0, 0, rank.get(), rank.stream()), ncclInvalidUsage);
  fakecuda_driver_version(CUDART_VERSION);
}

TEST_F(FakeOneSidedTest, ALostSignalIsNeverSeen) {
  on_ranks(2, [this](Rank& rank) {
    const WindowNumbers numbers(2 * kCount);
    {
      const Registered window(rank, numbers);
      const std::size_t half = numbers.bytes() / 2;
      if (rank.number() == 0) {
        fakecuda_nccl_lose_signal(2);
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(rank.put(numbers.data(), half, window.get(), half), ncclSuccess);
        }
        EXPECT_EQ(rank.synchronize(), cudaSuccess);
        meet();
        rank.abort();
      } else {
        EXPECT_EQ(rank.wait(1), ncclSuccess);
        EXPECT_EQ(rank.synchronize(), cudaSuccess);
        EXPECT_EQ(rank.wait(1), ncclSuccess);
        meet();
        EXPECT_EQ(next_error(rank.get()), ncclRemoteError) << "the peer is done";
        EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
        rank.abort();
      }
    }
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
  });
}

TEST_F(OneSidedTest, PutAndWaitAreCapturedAndReplayed) {
  on_ranks(2, [](const Rank& rank) {
    const WindowNumbers numbers(2 * kCount);
    const Registered window(rank, numbers);
    const std::size_t half = numbers.bytes() / 2;
    EXPECT_EQ(count_up(numbers.data(), kCount, 1, rank.stream()), cudaSuccess);
    const auto exchange = [&] {
      EXPECT_EQ(rank.put(numbers.data(), half, window.get(), half), ncclSuccess);
      EXPECT_EQ(rank.wait(1), ncclSuccess);
      EXPECT_EQ(fake_cuda_tests::add(numbers.data(), numbers.data() + kCount, numbers.data(), kCount,
                                     rank.stream()),
                cudaSuccess);
      // The peer's next put may come when this rank has read the last.
      EXPECT_EQ(rank.settled(nccl().signal(rank.peer(), 0, 0, 0, rank.get(), rank.stream())), ncclSuccess);
      EXPECT_EQ(rank.wait(1), ncclSuccess);
    };
    exchange();
    ASSERT_EQ(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    exchange();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(rank.stream(), &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    const GraphExec owner(exec);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, rank.stream()), cudaSuccess);
    const PinnedNumbers result(1);
    EXPECT_EQ(cudaMemcpyAsync(result.data(), numbers.data(), 4, cudaMemcpyDeviceToHost, rank.stream()),
              cudaSuccess);
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
    EXPECT_EQ(result[0], 16);
  });
}

TEST_F(FakeOneSidedTest, WhatWaitsBehindAWaitOnAnotherStreamIsReported) {
  fakecuda_nccl_deadlock_ms(100);
  {
    Rank rank(new_id(), 1, 0, true);
    const Stream other = new_stream();
    ncclWaitSignalDesc_t wanted{1, 0, 0, 0};
    EXPECT_EQ(nccl().wait_signal(1, &wanted, rank.get(), other.get()), ncclSuccess);
    EXPECT_EQ(nccl().signal(0, 0, 0, 0, rank.get(), rank.stream()), ncclSuccess);
    EXPECT_EQ(rank.synchronize(), cudaSuccess) << "does not hang";
    rank.abort();
  }
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  fakecuda_nccl_deadlock_ms(10000);
}

}  // namespace
}  // namespace fake_nccl_tests
