#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../../fake_cuda/nccl_controls.hpp"
#include "cuda/device_traffic.hpp"
#include "device_processes.hpp"
#include "forked_ranks.hpp"
#include "nccl/put_rank.hpp"
#include "nccl/shared_group.hpp"
#include "rank_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

/// Ranks that are processes, and what becomes of the others when one of them ends. The process of the tests
/// must not use CUDA itself.
namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;
using test::PutRank;

using test::expect_error;
using test::kNoError;
using test::kWrongError;

PutOptions options() {
  PutOptions options;
  options.patience = 20s;
  options.closing = 20s;
  return options;
}

/// Each rank's part, as a process; 0 if all is well.
using Part = std::function<int(StageId, process::Bootstrap&, agree::GroupChannel&)>;

void expect_all_well(const Pipeline& pipeline, const test::DeviceSlots::Size& size, const Part& part,
                     int killed = -1) {
  const test::SharedGroup group(pipeline.stages(), PutRank::needs(pipeline, size));
  test::ForkedRanks ranks(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const auto channel = group.channel(bootstrap.rank());
    return part(static_cast<StageId>(bootstrap.rank()), bootstrap, *channel);
  });
  test::expect_endings(ranks, killed);
}

TEST(PutProcesses, ExchangeMessagesOfChangingShapes) {
  const Pipeline pipeline = Pipeline::v_shape(4, 4);
  const test::DeviceSlots::Size size{6, 2, 30};
  expect_all_well(pipeline, size, [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    PutRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), channel, options());
    test::DeviceTraffic(pipeline, stage, rank, size, 2).run(20);
    return 0;
  });
}

TEST(PutProcesses, DelaysOfTheDeviceChangeNothing) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4);
  const test::DeviceSlots::Size size{4, 2, 30};
  expect_all_well(pipeline, size, [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(200);
    PutRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), channel, options());
    test::DeviceTraffic(pipeline, stage, rank, size, 3).run(4);
    return 0;
  });
}

/// With an armed wait for it at rank 2, and an offer that it has not taken at rank 0.
TEST(PutProcesses, NameTheRankThatDiedAndTheEdge) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  const test::DeviceSlots::Size size{2, 1, 4};
  const auto part = [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    PutRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), channel, options());
    if (stage < 2) rank.transport().send({0, 1, stage, Direction::Activation}, 0);
    bootstrap.all_gather({});
    if (stage == 2) {
      Offer offer;
      if (!rank.transport().poll(offer)) return kNoError;
      rank.transport().accept(offer, 0);
    }
    bootstrap.all_gather({});
    if (stage == 1) raise(SIGKILL);
    const std::string edge = stage == 0 ? "edge 0 (chunk 0 to 1)" : "edge 1 (chunk 1 to 2)";
    return expect_error([&] { test::poll_for_long(rank.transport()); },
                        {"rank " + std::to_string(stage), edge, "rank 1 (stage 1)", "ncclRemoteError"});
  };
  expect_all_well(pipeline, size, part, 1);
}

/// Whatever it was doing, and wherever the others stood; those that are no neighbours hear it from theirs.
TEST(PutProcesses, AllEndWhenOneIsKilledInTheMiddle) {
  const Pipeline pipeline = Pipeline::chain(4, 4);
  const test::DeviceSlots::Size size{6, 1, 30};
  const auto part = [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    PutRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), channel, options());
    test::DeviceTraffic traffic(pipeline, stage, rank, size, 4);
    traffic.run(3);
    if (stage == 1) {
      std::thread([] {
        std::this_thread::sleep_for(20ms);
        raise(SIGKILL);
      }).detach();
    }
    return expect_error([&] { traffic.run(1000000); },
                        {stage == 3 ? "rank 2 (stage 2)" : "rank 1 (stage 1)"});
  };
  expect_all_well(pipeline, size, part, 1);
}

/// Its process lives, but nothing of it moves: the watchdog of the others ends the run.
TEST(PutProcesses, AbandonLeavesARankThatHangs) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const test::DeviceSlots::Size size{2, 1, 4};
  const auto part = [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    {
      PutRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), channel, options());
      if (stage == 0) rank.transport().send({0, 1, 0, Direction::Activation}, 0);
      bootstrap.all_gather({});
      if (stage == 1) {
        Offer offer;
        if (!rank.transport().poll(offer)) return kNoError;
        // The wait is armed, and its sender never looks again.
        rank.transport().accept(offer, 0);
        Arrival arrival;
        if (rank.transport().poll(arrival)) return kNoError;
        rank.transport().abandon();
      } else {
        bootstrap.all_gather({});
        return expect_error([&] { test::poll_for_long(rank.transport()); },
                            {"rank 1 (stage 1) has given up"});
      }
    }
    bootstrap.all_gather({});
    return fakecuda_live("allocations") == 0 && fakecuda_live("streams") == 0 ? 0 : kWrongError;
  };
  expect_all_well(pipeline, size, part);
}

TEST(PutProcesses, AreAllToldWhenOneHasAnOldLibrary) {
  if (fakecuda_nccl_version == nullptr) GTEST_SKIP() << "needs the fake library";
  const Pipeline pipeline = Pipeline::chain(3, 2);
  const test::DeviceSlots::Size size{2, 1, 4};
  expect_all_well(pipeline, size, [&](StageId stage, process::Bootstrap& bootstrap, auto& channel) {
    if (stage == 1) fakecuda_nccl_version(22809);
    const auto all_gather = test::all_gather_of(bootstrap);
    std::vector<cuda::EdgeLayout> layouts(2, {test::vector_shape(4)});
    std::vector<cuda::ChunkMemory> chunks(1);
    std::vector<std::uint32_t> ranks{0, 1, 2};
    cuda::SlotMemory slots(pipeline, stage, 2, layouts, chunks);
    const host::SteadyClock clock;
    return expect_error(
        [&] {
          const PutTransport transport({pipeline, stage, ranks, slots, channel, clock}, all_gather,
                                       options());
        },
        {"nccl: version 2.28.9", "UCX"});
  });
}

}  // namespace
}  // namespace sluice::nccl
