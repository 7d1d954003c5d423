#include "generator_words.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::capture {
namespace {

// Torch's own states need its CUDA library, so that here are their members as the headers declare them.

struct WordsOfCapture : c10::intrusive_ptr_target {
  std::uint64_t offset_intragraph_ = 0;
  const std::int64_t* rng_state_seed_extragraph_ = nullptr;
  const std::int64_t* rng_state_offset_extragraph_ = nullptr;
};

/// Since 2.13.
struct StateWithCaptures {
  std::map<std::uint64_t, c10::intrusive_ptr<WordsOfCapture>> capture_states_;
  std::mutex capture_states_mutex_;
};

/// Before.
struct StateWithOneCapture {
  std::uint32_t offset_intragraph_ = 7;
  bool capturing_ = false;
  const std::int64_t* seed_extragraph_ = nullptr;
  const std::int64_t* offset_extragraph_ = nullptr;
};

constexpr std::int64_t kSeed = 5;
constexpr std::int64_t kOffset = 8;

TEST(GeneratorWords, GiveEachCaptureItsOwn) {
  StateWithCaptures state;
  const std::int64_t other = 1;
  read_from_words(state, 11, &kSeed, &kOffset, 0);
  read_from_words(state, 12, &other, &kOffset, 16);
  EXPECT_EQ(state.capture_states_.at(11)->rng_state_seed_extragraph_, &kSeed);
  EXPECT_EQ(state.capture_states_.at(11)->rng_state_offset_extragraph_, &kOffset);
  EXPECT_EQ(state.capture_states_.at(12)->rng_state_seed_extragraph_, &other);
  state.capture_states_.at(11)->offset_intragraph_ += 4;
  EXPECT_EQ(used_in_capture(state, 11), 4U);
  EXPECT_EQ(used_in_capture(state, 12), 16U);
  leave_words(state, 11);
  EXPECT_EQ(state.capture_states_.count(11), 0U);
  EXPECT_EQ(state.capture_states_.count(12), 1U);
}

TEST(GeneratorWords, OfACaptureThatTorchForgotAreUnused) {
  StateWithCaptures state;
  EXPECT_EQ(used_in_capture(state, 3), 0U);
  leave_words(state, 3);
}

TEST(GeneratorWords, BelongToTheGeneratorBefore) {
  StateWithOneCapture state;
  read_from_words(state, 11, &kSeed, &kOffset, 12);
  EXPECT_TRUE(state.capturing_);
  EXPECT_EQ(state.seed_extragraph_, &kSeed);
  EXPECT_EQ(state.offset_extragraph_, &kOffset);
  EXPECT_EQ(state.offset_intragraph_, 12U);
  state.offset_intragraph_ += 8;
  EXPECT_EQ(used_in_capture(state, 11), 20U);
  leave_words(state, 11);
  EXPECT_FALSE(state.capturing_);
}

}  // namespace
}  // namespace sluice::capture
