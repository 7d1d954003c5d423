#pragma once

#include <cstdint>
#include <initializer_list>

namespace sluice::gpt {

/// A random number that depends on its counters only, so that no order of tasks can change it.
/// The mixing step is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t counter_hash(std::initializer_list<std::uint64_t> counters) noexcept {
  std::uint64_t state = 0;
  for (const std::uint64_t counter : counters) {
    state = (state ^ counter) + 0x9e3779b97f4a7c15U;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    state ^= state >> 31;
  }
  return state;
}

/// First counter of each use, so that two uses never share random numbers.
enum class RandomUse : std::uint64_t {
  Initialisation = 1,
  TrainingBatch,
  HeldOutBatch,
  Dropout,
  TrainingImages,
  HeldOutImages
};

[[nodiscard]] constexpr std::uint64_t counter(RandomUse use) noexcept {
  return static_cast<std::uint64_t>(use);
}

}  // namespace sluice::gpt
