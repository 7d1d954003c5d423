#include "sluice/graphs/random_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"

namespace sluice::graphs {
namespace {

TEST(RandomState, DependsOnEachOfItsOrigins) {
  const RandomState state = random_state(1, 2, 3, 4);
  EXPECT_EQ(random_state(1, 2, 3, 4), state);
  EXPECT_NE(random_state(0, 2, 3, 4), state);
  EXPECT_NE(random_state(1, 0, 3, 4), state);
  EXPECT_NE(random_state(1, 2, 0, 4), state);
  EXPECT_NE(random_state(1, 2, 3, 0), state);
  EXPECT_NE(random_state(1, 3, 2, 4), state);
}

TEST(RandomState, DiffersBetweenAllTasks) {
  std::set<std::tuple<std::uint64_t, std::uint64_t>> states;
  for (std::uint64_t iteration = 0; iteration < 10; ++iteration) {
    for (Chunk chunk = 0; chunk < 10; ++chunk) {
      for (Microbatch microbatch = 0; microbatch < 10; ++microbatch) {
        const RandomState state = random_state(7, iteration, chunk, microbatch);
        EXPECT_EQ(state.offset % 4, 0U);
        states.emplace(state.seed, state.offset);
      }
    }
  }
  EXPECT_EQ(states.size(), 1000U);
}

class RandomWordsTest : public ::testing::Test {
 protected:
  /// A slot's words, in a place of each slot.
  [[nodiscard]] RandomState* words(Slot slot) const {
    return reinterpret_cast<RandomState*>(memory_.data()) + slot;
  }
  [[nodiscard]] RandomState read(Slot slot) const {
    RandomState state;
    cuda::check(cudaMemcpyAsync(&state, words(slot), sizeof state, cudaMemcpyDeviceToHost, stream_.get()),
                "reading");
    cuda::check(cudaStreamSynchronize(stream_.get()), "reading");
    return state;
  }
  void prepare(Pass pass, Slot slot, std::uint64_t iteration, Microbatch microbatch) {
    random_.prepare({0, iteration, microbatch, slot, false}, pass, words(slot), stream_.get());
  }

  cuda::Stream stream_ = cuda::make_stream();
  cuda::DeviceMemory memory_{4 * sizeof(RandomState), "words"};
  RandomWords random_{4, 99, 5};
};

TEST_F(RandomWordsTest, AForwardWritesTheStateOfItsMicrobatch) {
  for (Slot slot = 0; slot < 4; ++slot) prepare(Pass::Forward, slot, 6, 10 + slot);
  for (Slot slot = 0; slot < 4; ++slot) EXPECT_EQ(read(slot), random_state(99, 6, 5, 10 + slot));
}

TEST_F(RandomWordsTest, OtherPassesFindWhatTheForwardWrote) {
  prepare(Pass::Forward, 2, 6, 1);
  prepare(Pass::Backward, 2, 6, 1);
  prepare(Pass::WeightGrad, 2, 6, 1);
  EXPECT_EQ(read(2), random_state(99, 6, 5, 1));
}

TEST_F(RandomWordsTest, ASlotTakesTheNextMicrobatch) {
  prepare(Pass::Forward, 0, 6, 1);
  EXPECT_EQ(read(0), random_state(99, 6, 5, 1));
  prepare(Pass::Forward, 0, 7, 2);
  EXPECT_EQ(read(0), random_state(99, 7, 5, 2));
}

}  // namespace
}  // namespace sluice::graphs
