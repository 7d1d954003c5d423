#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "cuda/cached_chunk.hpp"
#include "null_seams.hpp"
#include "sluice/agreement.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"

/// A stage of captured graphs, launched by the dispatcher through the CUDA executor, computes to the last bit
/// what its code does call by call.
namespace sluice::graphs {
namespace {

using test::CachedChunk;

constexpr int kElements = 64;

/// Neighbours that answer at once with the tensors of the microbatch.
class DeviceNeighbours final : public Transport {
 public:
  explicit DeviceNeighbours(CachedChunk& chunk) : chunk_(chunk), messages_(chunk.pipeline(), 1) {}

  void begin(std::uint64_t iteration) { messages_.begin(iteration); }
  bool poll(Offer& offer) override { return messages_.poll(offer); }
  void accept(const Offer& offer, Slot slot) override {
    if (offer.id.direction == Direction::Activation) chunk_.arrive(offer.id.microbatch, slot, kElements);
    messages_.accept(offer, slot);
  }
  bool poll(Arrival& arrival) override { return messages_.poll(arrival); }
  void send(const MessageId& id, Slot slot) override { messages_.send(id, slot); }
  bool poll(SendDone& done) override { return messages_.poll(done); }
  [[nodiscard]] Time next_deadline() const override { return messages_.next_deadline(); }

 private:
  CachedChunk& chunk_;
  test::NullTransport messages_;
};

struct Way {
  std::string name;
  std::string hint;
  bool split = false;
  std::uint32_t limit = 4;
  std::uint32_t depth = 2;
  cuda::PassLanes lanes = cuda::kOneLane;
  cuda::CudaExecutor::Completion completion = cuda::CudaExecutor::Completion::Flags;
};

class CapturedStage : public ::testing::TestWithParam<Way> {};

TEST_P(CapturedStage, TrainsAsItsCodeDoes) {
  const Way& way = GetParam();
  GraphCache::Options options;
  options.lanes = way.lanes;
  CachedChunk chunk({.slots = way.limit, .split = way.split, .cache = options});
  const host::SteadyClock clock;
  cuda::CudaExecutor::Options executor_options;
  executor_options.depth = way.depth;
  executor_options.completion = way.completion;
  cuda::CudaExecutor executor(clock, chunk.pipeline(), 1, way.limit, chunk.cache(), executor_options);
  chunk.cache().capture_all(executor.board(),
                            [&](const Launch& launch) { return executor.place_of(launch); });

  DeviceNeighbours neighbours(chunk);
  SingleRank agreement;
  DispatcherConfig config;
  config.rank = config.stage = 1;
  config.limit = way.limit;
  config.lanes = way.lanes;
  Dispatcher dispatcher(chunk.pipeline(), config,
                        Policy::readiness(Hint::named(way.hint, chunk.pipeline(), 1)),
                        {executor, neighbours, agreement, clock});
  const Time limit = clock.now() + std::chrono::minutes(1);
  dispatcher.begin({1});
  neighbours.begin(1);
  while (!dispatcher.finished()) {
    if (!dispatcher.progress()) std::this_thread::yield();
    if (clock.now() > limit) throw std::runtime_error(dispatcher.waiting_report());
  }

  CachedChunk by_calls({.slots = way.limit, .split = way.split});
  EXPECT_EQ(chunk.stage().weight_gradient(), run_all(by_calls, by_calls.eager(), way.split, [](Microbatch) {
                                               return kElements;
                                             }).weight_gradient);
  EXPECT_EQ(chunk.cache().statistics().eager, 0U);
  EXPECT_GE(chunk.cache().statistics().launches, CachedChunk::kMicrobatches * 2U);
}

INSTANTIATE_TEST_SUITE_P(
    GraphCache, CapturedStage,
    ::testing::Values(
        Way{"Whole", "bf"}, Way{"Split", "bfw", true}, Way{"ForwardsFirst", "fb", false, 12, 3},
        Way{"WeightGradsOnTheirOwnLane", "bfw", true, 4, 2, {Lane::Compute, Lane::Compute, Lane::WeightGrad}},
        Way{"ByEvents", "bf", false, 4, 2, cuda::kOneLane, cuda::CudaExecutor::Completion::Events}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace sluice::graphs
