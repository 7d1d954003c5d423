#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "../../../engine/src/nccl/put_words.hpp"
#include "../../fake_cuda/nccl_controls.hpp"
#include "put_steps.hpp"
#include "sluice/nccl/communicator.hpp"

/// What becomes of the transport that puts when something goes wrong, and what it refuses.
namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;
using test::PutRank;
using test::PutThreads;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(PutTransportTest, ANeighbourThatGivesUpIsAnError) {
  const Pipeline pipeline = Pipeline::chain(3, 2);
  PutThreads ranks(pipeline, std::vector<test::DeviceSlots::Size>(3, {2, 1, 4}));
  ranks[2].abandon();
  EXPECT_THAT(error_of_polling(ranks[1]),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 2 (stage 2) has given up"), HasSubstr("edge 1")));
  // Its own neighbour hears from it, in turn.
  EXPECT_THAT(error_of_polling(ranks[0]), HasSubstr("rank 1 (stage 1) has given up"));
}

TEST_F(PutTransportTest, ABrokenCommunicatorNamesRanksAndEdge) {
  if (fakecuda_nccl_break == nullptr) GTEST_SKIP() << "needs the fake library";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  fakecuda_nccl_break(nullptr, ncclSystemError);
  EXPECT_THAT(error_of_polling(ranks[1]), AllOf(HasSubstr("rank 1: "), HasSubstr("of edge 0 (chunk 0 to 1)"),
                                                HasSubstr("rank 0 (stage 0): ncclSystemError")));
}

TEST_F(PutTransportTest, APutThatIsRefusedNamesRanksAndEdge) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[0].send(activation(1), 0);
  ranks[1].accept(next_offer(ranks[1]), 0);
  fakecuda_nccl_fail("ncclPutSignal", 1, ncclInvalidUsage);
  EXPECT_THAT(error_of_polling(ranks[0]),
              AllOf(HasSubstr("rank 0: activations of edge 0 (chunk 0 to 1) to rank 1 (stage 1)"),
                    HasSubstr("putting"), HasSubstr("ncclInvalidUsage")));
}

/// The wait stays armed until somebody gives up.
TEST_F(PutTransportTest, AbandonEndsAWaitForASignalThatIsLost) {
  if (fakecuda_nccl_lose_signal == nullptr) GTEST_SKIP() << "needs the fake library";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[0].send(activation(1), 0);
  ranks[1].accept(next_offer(ranks[1]), 0);
  fakecuda_nccl_lose_signal(1);
  static_cast<void>(await<SendDone>(ranks[0], ranks[1]));
  Arrival arrival;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(ranks[1].poll(arrival));
  EXPECT_EQ(ranks[1].next_deadline(), kAnyTime);
  ranks[1].abandon();
  EXPECT_THAT(error_of_polling(ranks[0]), HasSubstr("rank 1 (stage 1) has given up"));
}

TEST_F(PutTransportTest, AFailedDeviceIsFoundWhileAPutIsUnderWay) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[0].send(activation(1), 0);
  ranks[1].accept(next_offer(ranks[1]), 0);
  fakecuda_fail("execute", 1, cudaErrorIllegalAddress);
  // Whichever of its communicators is asked first.
  EXPECT_THAT(error_of_polling(ranks[0]), AllOf(HasSubstr("rank 0: "), HasSubstr(" of edge 0 ")));
}

TEST_F(PutTransportTest, ANeighbourThatLeavesWithoutTakingAMessageIsAnError) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutOptions options;
  options.closing = 50ms;
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  ranks[1].send(gradient(1), 0);
  ranks.end(0);
  EXPECT_THAT(error_of_polling(ranks[1]), AllOf(HasSubstr("rank 0 (stage 0) has left too early"),
                                                HasSubstr("gradient of edge 0, microbatch 1")));
  EXPECT_THAT(error_of([&] { ranks[1].send(gradient(0), 1); }), HasSubstr("has left"));
}

TEST_F(PutTransportTest, TheEndDoesNotWaitForMessagesForEver) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutOptions options;
  options.closing = 50ms;
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  ranks[0].send(activation(1), 0);
  ranks[1].accept(next_offer(ranks[1]), 0);
  // Rank 0 does not look at the grant.
  ranks.end(1);
  EXPECT_THAT(error_of_polling(ranks[0]), HasSubstr("rank 1 (stage 1) has given up"));
}

TEST_F(PutTransportTest, NothingIsLeftBehind) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  cuda::use_device(0);
  const auto live = [] {
    std::vector<std::size_t> counts;
    for (const char* kind : {"allocations", "host allocations", "streams", "communicators", "windows"})
      counts.push_back(fakecuda_live(kind));
    return counts;
  };
  const auto before = live();
  exchange(Pipeline::chain(2, 2), {{2, 1, 4}, {2, 1, 4}}, 2);
  EXPECT_EQ(live(), before);
  const Pipeline pipeline = Pipeline::chain(2, 2);
  {
    PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
    ranks[0].send(activation(1), 0);
    ranks[1].accept(next_offer(ranks[1]), 0);
    Arrival arrival;
    EXPECT_FALSE(ranks[1].poll(arrival));
  }
  EXPECT_EQ(live(), before);
}

/// What rank 1 gets as the word of rank 0.
std::string error_of_word(const PutWord& word, std::size_t bytes_more) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[1].send(gradient(0), 0);
  std::vector<std::byte> bytes(sizeof word + bytes_more);
  std::memcpy(bytes.data(), &word, sizeof word);
  ranks.channel(0).send(1, bytes);
  return error_of_polling(ranks[1]);
}

TEST_F(PutTransportTest, RefusesWordsThatCannotBeMeant) {
  using Kind = PutWord::Kind;
  constexpr std::size_t kShape = sizeof(TensorShape);
  constexpr std::size_t kPlace = sizeof(std::uint64_t);
  EXPECT_THAT(error_of_word({Kind::Offer, 0, gradient(0), 1}, kShape), HasSubstr("does not lead there"));
  EXPECT_THAT(error_of_word({Kind::Offer, 0, {0, 2, 0, {}}, 1}, kShape), HasSubstr("does not lead there"));
  EXPECT_THAT(error_of_word({Kind::Offer, 0, {0, 0, 9, {}}, 1}, kShape), HasSubstr("does not lead there"));
  for (const int direction : {2, 7, 255}) {
    EXPECT_THAT(error_of_word({Kind::Offer, 0, {0, 0, 0, static_cast<Direction>(direction)}, 1}, kShape),
                HasSubstr("does not lead there"));
  }
  EXPECT_THAT(error_of_word({Kind::Offer, 0, activation(0), 1}, kShape - 1), HasSubstr("71 bytes for 1"));
  EXPECT_THAT(error_of_word({Kind::Offer, 0, activation(0), 0}, 0), HasSubstr("has 0 tensors"));
  EXPECT_THAT(error_of_word({Kind::Grant, 77, gradient(0), 1}, kPlace), HasSubstr("not offered"));
  EXPECT_THAT(error_of_word({Kind::Grant, 0, gradient(1), 1}, kPlace), HasSubstr("not offered"));
  EXPECT_THAT(error_of_word({Kind::Grant, 0, gradient(0), 2}, 2 * kPlace), HasSubstr("not offered"));
  EXPECT_THAT(error_of_word({Kind::Grant, 0, gradient(0), 1}, 3), HasSubstr("not offered"));
  EXPECT_THAT(error_of_word({static_cast<Kind>(9), 0, gradient(0), 0}, 0), HasSubstr("something unknown"));
}

/// What rank 1, whose slots hold four doubles, gets as the offer of such a tensor.
std::string error_of_shape(const TensorShape& shape) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  const PutWord word{PutWord::Kind::Offer, 0, activation(0), 1};
  std::vector<std::byte> bytes(sizeof word + sizeof shape);
  std::memcpy(bytes.data(), &word, sizeof word);
  std::memcpy(bytes.data() + sizeof word, &shape, sizeof shape);
  ranks.channel(0).send(1, bytes);
  return error_of_polling(ranks[1]);
}

TEST_F(PutTransportTest, RefusesTensorsThatCannotBe) {
  EXPECT_THAT(error_of_shape({2, 64, 255, {}}), HasSubstr("255 dimensions"));
  EXPECT_THAT(error_of_shape({2, 64, 1, {5}}), HasSubstr("its slot has 32 bytes"));
  EXPECT_THAT(error_of_shape({2, 64, 1, {-1}}), HasSubstr("its slot has"));
  // Their product is a power of two that 64 bits do not hold.
  EXPECT_THAT(error_of_shape({2, 64, 2, {std::int64_t{1} << 31, std::int64_t{1} << 33}}),
              HasSubstr("its slot has"));
}

TEST_F(PutTransportTest, RefusesAPlaceOutsideOfItsSlots) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}});
  ranks[1].send(gradient(0), 0);
  const PutWord word{PutWord::Kind::Grant, 0, gradient(0), 1};
  const std::uint64_t place = ranks.rank(0).slots().block().size() - 31;
  std::vector<std::byte> bytes(sizeof word + sizeof place);
  std::memcpy(bytes.data(), &word, sizeof word);
  std::memcpy(bytes.data() + sizeof word, &place, sizeof place);
  ranks.channel(0).send(1, bytes);
  EXPECT_THAT(error_of_polling(ranks[1]), AllOf(HasSubstr("rank 0 (stage 0)"), HasSubstr("outside")));
}

TEST_F(PutTransportTest, RefusesNeighboursThatCountDifferentTensors) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const PutThreads ranks(pipeline, {{2, 1, 4}, {2, 2, 4}});
  for (const std::uint32_t rank : {0U, 1U})
    EXPECT_THAT(ranks.error(rank), AllOf(HasSubstr("layouts: "), HasSubstr("of edge 0 (chunk 0 to 1)")));
}

TEST_F(PutTransportTest, RefusesBlocksOfDifferentSizes) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const test::DeviceSlots::Size size{2, 1, 4};
  host::InProcessGroup group({nullptr, nullptr}, PutRank::needs(pipeline, size));
  const std::vector<std::uint32_t> ranks{0, 1};
  const host::SteadyClock clock;
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::uint32_t rank = bootstrap.rank();
    const auto stage = static_cast<StageId>(rank);
    test::DeviceSlots device(pipeline, stage, size, [&](std::size_t bytes, const char* what) {
      return WindowMemory(bytes * (rank + 1), what).take();
    });
    EXPECT_THAT(error_of([&] {
                  const PutTransport transport(
                      {pipeline, stage, ranks, device.slots(), group.channel(rank), clock},
                      test::all_gather_of(bootstrap));
                }),
                AllOf(HasSubstr("slots: rank"), HasSubstr("1024"), HasSubstr("2048"),
                      HasSubstr("nccl::window_block")));
  });
}

TEST_F(PutTransportTest, RefusesWordsThatAreNoCard) {
  const Pipeline pipeline = Pipeline::chain(2, 2);
  const auto change = [](std::uint32_t rank, std::vector<std::byte>& own) {
    if (rank == 1 && own.size() > sizeof(std::uint64_t)) own.pop_back();
  };
  const PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, {}, change);
  EXPECT_THAT(ranks.error(0),
              AllOf(HasSubstr("rank 0 cannot join with rank 1"), HasSubstr("another version")));
  EXPECT_FALSE(ranks.error(1).empty());
}

TEST_F(PutTransportTest, ARankThatCannotJoinIsAnErrorForAll) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  cuda::use_device(0);
  const Pipeline pipeline = Pipeline::chain(2, 2);
  fakecuda_nccl_fail("ncclCommInitRankConfig", 2, ncclSystemError);
  PutOptions options;
  options.patience = 2s;
  const PutThreads ranks(pipeline, {{2, 1, 4}, {2, 1, 4}}, options);
  for (const std::uint32_t rank : {0U, 1U}) EXPECT_THAT(ranks.error(rank), HasSubstr("of edge 0"));
  EXPECT_THAT(ranks.error(0) + ranks.error(1), HasSubstr("ncclSystemError"));
}

/// Of a stage that connects with nobody.
class PutMemberTest : public PutTransportTest {
 protected:
  PutMemberTest() { cuda::use_device(0); }

  std::string refused(StageId stage, const std::vector<std::uint32_t>& ranks, std::uint32_t member,
                      std::string& field) {
    try {
      const PutTransport transport({pipeline_, stage, ranks, slots_, group_.channel(member), clock_},
                                   gather_);
    } catch (const ConfigError& error) {
      field = error.field();
      return error.what();
    }
    return "it was not refused";
  }

  const Pipeline pipeline_ = Pipeline::chain(2, 2);
  const std::vector<cuda::EdgeLayout> layouts_{{test::vector_shape(4)}};
  const std::vector<cuda::ChunkMemory> chunks_{{}};
  cuda::SlotMemory slots_{pipeline_, 0, 2, layouts_, chunks_};
  host::InProcessGroup group_{{nullptr, nullptr}, PutTransport::needs(pipeline_, layouts_)};
  const host::SteadyClock clock_;
  /// All have the same to say.
  const cuda::AllGather gather_ = [](std::span<const std::byte> own) {
    return std::vector<std::vector<std::byte>>(2, {own.begin(), own.end()});
  };
};

TEST_F(PutMemberTest, RefusesAStageOrRanksThatDoNotExist) {
  std::string field;
  refused(2, {0, 1}, 0, field);
  EXPECT_EQ(field, "stage");
  refused(0, {0}, 0, field);
  EXPECT_EQ(field, "ranks");
  refused(0, {0, 2}, 0, field = "");
  EXPECT_EQ(field, "ranks");
  EXPECT_THAT(refused(0, {0, 1}, 1, field), HasSubstr("the channel is rank 1's"));
}

}  // namespace
}  // namespace sluice::nccl
