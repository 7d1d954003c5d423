#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/device_rank.hpp"
#include "cuda/device_traffic.hpp"
#include "device_processes.hpp"
#include "forked_ranks.hpp"
#include "rank_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

/// Ranks that are processes, and what becomes of the others when one of them ends. The process of the tests
/// must not use CUDA itself.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;
using test::DeviceRank;

using test::expect_error;

IpcOptions options() {
  IpcOptions options;
  options.closing = 20s;
  return options;
}

/// Each rank's part, as a process; 0 if all is well.
using Part = std::function<int(StageId, process::Bootstrap&)>;

void expect_all_well(const Pipeline& pipeline, const Part& part, int killed = -1) {
  test::ForkedRanks ranks(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    use_device(0);
    return part(static_cast<StageId>(bootstrap.rank()), bootstrap);
  });
  test::expect_endings(ranks, killed);
}

TEST(IpcProcesses, ExchangeMessagesOfChangingShapes) {
  const Pipeline pipeline = Pipeline::v_shape(4, 4);
  const DeviceRank::Size size{6, 2, 30};
  expect_all_well(pipeline, [&](StageId stage, process::Bootstrap& bootstrap) {
    DeviceRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), options());
    test::DeviceTraffic(pipeline, stage, rank, size, 2).run(20);
    return 0;
  });
}

TEST(IpcProcesses, DelaysOfTheDeviceChangeNothing) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 4);
  const DeviceRank::Size size{4, 2, 30};
  expect_all_well(pipeline, [&](StageId stage, process::Bootstrap& bootstrap) {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(200);
    DeviceRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), options());
    test::DeviceTraffic(pipeline, stage, rank, size, 3).run(4);
    return 0;
  });
}

TEST(IpcProcesses, NameTheRankThatDiedAndTheMessageOrEdge) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  const auto part = [&](StageId stage, process::Bootstrap& bootstrap) {
    DeviceRank rank(pipeline, stage, {2, 1, 4}, test::all_gather_of(bootstrap), options());
    if (stage == 0) rank.transport().send({0, 1, 0, Direction::Activation}, 0);
    bootstrap.all_gather({});
    if (stage == 1) raise(SIGKILL);
    const std::string what = stage == 0 ? "activation of edge 0, microbatch 1" : "edge 1 (chunk 1 to 2)";
    return expect_error([&] { test::poll_for_long(rank.transport()); }, {"rank 1 (stage 1) has died", what});
  };
  expect_all_well(pipeline, part, 1);
}

/// Whatever it was doing, and wherever the others stood; those that are no neighbours hear it from theirs.
TEST(IpcProcesses, AllEndWhenOneIsKilledInTheMiddle) {
  const Pipeline pipeline = Pipeline::chain(4, 4);
  const DeviceRank::Size size{6, 1, 30};
  const auto part = [&](StageId stage, process::Bootstrap& bootstrap) {
    DeviceRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), options());
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
  expect_all_well(pipeline, part, 1);
}

/// What all ranks are told when rank 1 finds that something does not work.
void expect_refusal(const std::function<void()>& breaks, const std::vector<std::string>& words) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  expect_all_well(pipeline, [&](StageId stage, process::Bootstrap& bootstrap) {
    if (stage == 1) breaks();
    return expect_error(
        [&] {
          const DeviceRank rank(pipeline, stage, {2, 1, 4}, test::all_gather_of(bootstrap), options());
        },
        words);
  });
}

TEST(IpcProcesses, AreRefusedWhereAHandleCannotBeOpened) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  expect_refusal([] { fakecuda_fail("cudaIpcOpenMemHandle", 1, cudaErrorMapBufferObjectFailed); },
                 {"rank 1 cannot pull from rank 0", "cudaErrorMapBufferObjectFailed", "use UCX",
                  "CUDA_VISIBLE_DEVICES"});
}

TEST(IpcProcesses, AreRefusedWhereMemoryHasNoHandle) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  expect_refusal([] { fakecuda_fail("cudaIpcGetMemHandle", 1, cudaErrorNotSupported); },
                 {"rank 0 cannot pull from rank 1", "cudaErrorNotSupported", "use UCX"});
}

TEST(IpcProcesses, AreRefusedWhereDevicesDoNotReachEachOther) {
  if (fakecuda_allow_peers == nullptr) GTEST_SKIP() << "needs the fake device";
  expect_refusal([] { fakecuda_allow_peers(false); }, {"cannot pull from rank", "use UCX"});
}

}  // namespace
}  // namespace sluice::cuda
