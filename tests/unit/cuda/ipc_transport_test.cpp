#include "sluice/cuda/ipc_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/device_rank.hpp"
#include "cuda/device_traffic.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;
using test::DeviceRank;
using ::testing::AllOf;
using ::testing::HasSubstr;

MessageId activation(Microbatch microbatch) { return {0, microbatch, 0, Direction::Activation}; }
MessageId gradient(Microbatch microbatch) { return {0, microbatch, 0, Direction::Gradient}; }

/// What `call` throws; empty if nothing.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Ranks of one process, driven by one thread.
class Ranks {
 public:
  using Change = std::function<void(std::uint32_t rank, std::vector<std::byte>& own)>;

  Ranks(const Pipeline& pipeline, std::vector<DeviceRank::Size> sizes, const IpcOptions& options = {},
        const Change& change = {})
      : ranks_(pipeline.stages()), errors_(pipeline.stages()) {
    use_device(0);
    test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
      const std::uint32_t rank = bootstrap.rank();
      use_device(0);
      const AllGather all_gather = [&](std::span<const std::byte> own) {
        std::vector<std::byte> bytes(own.begin(), own.end());
        if (change) change(rank, bytes);
        return bootstrap.all_gather(bytes);
      };
      errors_[rank] = error_of([&] {
        ranks_[rank] = std::make_unique<DeviceRank>(pipeline, static_cast<StageId>(rank), sizes[rank],
                                                    all_gather, options);
      });
    });
  }
  /// All end in one thread: none can wait for another.
  ~Ranks() {
    for (const auto& rank : ranks_) {
      if (rank != nullptr) rank->transport().abandon();
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  IpcTransport& operator[](std::uint32_t rank) { return ranks_[rank]->transport(); }
  DeviceRank& rank(std::uint32_t rank) { return *ranks_[rank]; }
  void end(std::uint32_t rank) { ranks_[rank].reset(); }
  [[nodiscard]] const std::string& error(std::uint32_t rank) const { return errors_[rank]; }

 private:
  std::vector<std::unique_ptr<DeviceRank>> ranks_;
  std::vector<std::string> errors_;
};

/// What `poll` throws sooner or later.
std::string error_of_polling(IpcTransport& transport) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < until) {
    Offer offer;
    const std::string error = error_of([&] { static_cast<void>(transport.poll(offer)); });
    if (!error.empty()) return error;
    std::this_thread::sleep_for(1ms);
  }
  return "nothing was thrown";
}

Offer next_offer(IpcTransport& transport) {
  Offer offer;
  EXPECT_TRUE(transport.poll(offer));
  return offer;
}

/// The pipeline's ranks, each a thread that sleeps in its transport's wake.
void exchange(const Pipeline& pipeline, const DeviceRank::Size& size, std::uint64_t iterations) {
  test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    use_device(0);
    const auto stage = static_cast<StageId>(bootstrap.rank());
    IpcOptions options;
    options.closing = 20s;
    DeviceRank rank(pipeline, stage, size, test::all_gather_of(bootstrap), options);
    test::DeviceTraffic(pipeline, stage, rank, size, 1).run(iterations);
  });
}

class IpcTransportTest : public ::testing::Test {
 protected:
  ~IpcTransportTest() override {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }
};

TEST_F(IpcTransportTest, ThreadsExchangeMessagesOfChangingShapes) {
  exchange(Pipeline::chain(4, 6), {6, 2, 40}, 30);
}

TEST_F(IpcTransportTest, ThreadsExchangeMessagesBetweenChunksOfOneStageToo) {
  exchange(Pipeline::v_shape(3, 4), {6, 1, 16}, 30);
}

TEST_F(IpcTransportTest, DelaysOfTheDeviceChangeNothing) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_delay_us(200);
  exchange(Pipeline::interleaved(2, 2, 4), {4, 2, 30}, 4);
}

TEST_F(IpcTransportTest, AnOfferNamesShapesAndBytesAndTheSlotTakesThem) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 2, 8}, {2, 2, 8}});
  ranks.rank(0).put(activation(1), 0, {{1, 2, 3}, {}});
  ranks[0].send(activation(1), 0);
  const Offer offer = next_offer(ranks[1]);
  EXPECT_EQ(offer.bytes, 24U);
  ASSERT_EQ(offer.shapes.size(), 2U);
  EXPECT_EQ(offer.shapes[0], test::vector_shape(3));
  EXPECT_EQ(offer.shapes[1], test::vector_shape(0));
  ranks[1].accept(offer, 1);
  EXPECT_EQ(ranks.rank(1).slots().at(0, 1).inputs[0][0].shape, test::vector_shape(3));
  EXPECT_EQ(ranks.rank(1).slots().at(0, 0).inputs[0][0].shape, test::vector_shape(8));
}

TEST_F(IpcTransportTest, RefusesAMessageThatDoesNotFitItsSlot) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 8}, {2, 1, 4}});
  ranks.rank(0).put(activation(1), 0, {{1, 2, 3, 4, 5}});
  ranks[0].send(activation(1), 0);
  Offer offer;
  EXPECT_THROW(
      {
        try {
          static_cast<void>(ranks[1].poll(offer));
        } catch (const ProtocolError& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1"), HasSubstr("rank 0"),
                                          HasSubstr("activation of edge 0, microbatch 1"),
                                          HasSubstr("float64[5]"), HasSubstr("32 bytes")));
          throw;
        }
      },
      ProtocolError);
}

TEST_F(IpcTransportTest, RefusesToSendMoreThanASlotHolds) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks.rank(1).slots().at(0, 1).input_grads[0][0].shape = test::vector_shape(5);
  EXPECT_THAT(
      error_of([&] { ranks[1].send(gradient(0), 1); }),
      AllOf(HasSubstr("gradient of edge 0, microbatch 0"), HasSubstr("float64[5]"), HasSubstr("32 bytes")));
}

TEST_F(IpcTransportTest, RefusesMoreMessagesThanTwoIterationsHave) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  for (int i = 0; i < 4; ++i) ranks[0].send(activation(0), 0);
  EXPECT_THAT(error_of([&] { ranks[0].send(activation(0), 0); }), HasSubstr("more messages in flight"));
}

TEST_F(IpcTransportTest, ASleepingNeighbourIsWoken) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  std::thread sender([&] { ranks[0].send(activation(0), 0); });
  Offer offer;
  while (!ranks[1].poll(offer)) ranks[1].wake().wait_until(kNever);
  sender.join();
  EXPECT_EQ(offer.id, activation(0));
}

TEST_F(IpcTransportTest, LooksAgainWhileAPullIsUnderWay) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  EXPECT_EQ(ranks[1].next_deadline(), kNever);
  ranks[0].send(activation(0), 0);
  ranks[1].accept(next_offer(ranks[1]), 0);
  EXPECT_EQ(ranks[1].next_deadline(), kAnyTime);
  check(cudaDeviceSynchronize(), "waiting for the pull");
  Arrival arrival;
  ASSERT_TRUE(ranks[1].poll(arrival));
  EXPECT_EQ(ranks[1].next_deadline(), kNever);
}

TEST_F(IpcTransportTest, LooksForItsNeighboursWhereTheRankSleepsElsewhere) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  IpcOptions options;
  options.sleeps_elsewhere = true;
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  EXPECT_EQ(ranks[0].next_deadline(), kAnyTime);
}

TEST_F(IpcTransportTest, ANeighbourThatGivesUpIsAnError) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}, {2, 1, 4}});
  ranks[2].abandon();
  EXPECT_THAT(error_of_polling(ranks[1]),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 2 (stage 2) has given up"), HasSubstr("edge 1")));
  EXPECT_THAT(error_of([&] { ranks[1].send({0, 0, 1, Direction::Activation}, 0); }), HasSubstr("has left"));
}

TEST_F(IpcTransportTest, ANeighbourThatLeavesWithoutTakingAMessageIsAnError) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  IpcOptions options;
  options.closing = 1ms;
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  ranks[1].send(gradient(1), 0);
  ranks.end(0);
  EXPECT_THAT(error_of_polling(ranks[1]), AllOf(HasSubstr("rank 0 (stage 0) has left too early"),
                                                HasSubstr("gradient of edge 0, microbatch 1")));
}

TEST_F(IpcTransportTest, ANeighbourMayLeaveWhenNothingIsUnderWay) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  IpcOptions options;
  options.closing = 1ms;
  options.health_interval = 0ns;
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  ranks.end(0);
  Offer offer;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ranks[1].poll(offer));
}

TEST_F(IpcTransportTest, RefusesNeighboursThatCountDifferentTensors) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const Ranks ranks(pipeline, {{2, 1, 4}, {2, 2, 4}});
  for (const std::uint32_t rank : {0U, 1U})
    EXPECT_THAT(ranks.error(rank), AllOf(HasSubstr("cannot pull from rank"), HasSubstr("layouts")));
}

TEST_F(IpcTransportTest, RefusesNeighboursOnDifferentHosts) {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  ASSERT_TRUE(std::getline(file, boot));
  const auto change = [&](std::uint32_t rank, std::vector<std::byte>& own) {
    const auto* text = reinterpret_cast<const std::byte*>(boot.data());
    const auto found = std::search(own.begin(), own.end(), text, text + boot.size());
    if (rank == 1 && found != own.end()) *found = std::byte{'x'};
  };
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, {}, change);
  EXPECT_THAT(ranks.error(0), AllOf(HasSubstr("rank 0 cannot pull from rank 1"), HasSubstr("different hosts"),
                                    HasSubstr("use UCX")));
  EXPECT_THAT(ranks.error(1), HasSubstr("different hosts"));
}

TEST_F(IpcTransportTest, RefusesWordsThatAreNoCard) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const auto change = [](std::uint32_t rank, std::vector<std::byte>& own) {
    if (rank == 1 && !own.empty()) own.pop_back();
  };
  const Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, {}, change);
  EXPECT_THAT(ranks.error(0), AllOf(HasSubstr("rank 1"), HasSubstr("another version")));
  EXPECT_FALSE(ranks.error(1).empty());
}

TEST_F(IpcTransportTest, RefusesAStageOrRanksThatDoNotExist) {
  use_device(0);
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const std::vector<EdgeLayout> layouts(1, EdgeLayout{test::vector_shape(4)});
  const std::vector<ChunkMemory> chunks(1);
  SlotMemory slots(pipeline, 0, 2, layouts, chunks);
  const host::SteadyClock clock;
  const AllGather none = [](std::span<const std::byte>) { return std::vector<std::vector<std::byte>>{}; };
  const auto refused = [&](StageId stage, std::vector<std::uint32_t> ranks) {
    try {
      const IpcTransport transport({pipeline, stage, ranks, slots, clock}, none);
    } catch (const ConfigError& error) {
      return error.field();
    }
    return std::string();
  };
  EXPECT_EQ(refused(2, {0, 1}), "stage");
  EXPECT_EQ(refused(0, {0}), "ranks");
}

TEST_F(IpcTransportTest, ACopyThatIsRefusedNamesItsMessage) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[0].send(activation(1), 0);
  const Offer offer = next_offer(ranks[1]);
  fakecuda_fail("cudaMemcpyAsync", 1, cudaErrorInvalidValue);
  EXPECT_THAT(error_of([&] { ranks[1].accept(offer, 0); }),
              AllOf(HasSubstr("rank 1: pulling the activation of edge 0, microbatch 1"),
                    HasSubstr("from rank 0"), HasSubstr("cudaErrorInvalidValue")));
}

TEST_F(IpcTransportTest, AFailedDeviceIsFoundWhileAPullIsUnderWay) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  Ranks ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[0].send(activation(1), 0);
  const Offer offer = next_offer(ranks[1]);
  fakecuda_fail("execute", 1, cudaErrorIllegalAddress);
  // The device may fail before the call that starts the pull returns, or after.
  std::string error = error_of([&] { ranks[1].accept(offer, 0); });
  if (error.empty()) error = error_of_polling(ranks[1]);
  EXPECT_THAT(error,
              AllOf(HasSubstr("rank 1: pulling"), HasSubstr("from rank 0"),
                    HasSubstr("activation of edge 0, microbatch 1"), HasSubstr("cudaErrorIllegalAddress")));
}

TEST_F(IpcTransportTest, LeavesNothingBehind) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  const std::vector<const char*> kinds{"allocations", "host allocations", "streams", "opened handles"};
  std::vector<std::size_t> before;
  for (const char* kind : kinds) before.push_back(fakecuda_live(kind));
  exchange(Pipeline::chain(2, 2), {4, 1, 4}, 2);
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(fakecuda_live(kinds[i]), before[i]) << kinds[i];
}

}  // namespace
}  // namespace sluice::cuda
