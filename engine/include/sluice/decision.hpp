#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// One launch: what ran, what else could have, and what was held back and why.
struct Decision {
  Task task;
  std::uint64_t iteration = 0;
  Time at{};
  Slot slot = kNoSlot;
  /// A backward that includes its weight gradients.
  bool whole = false;
  /// The limit bound on several chunks: only the focus microbatch was considered.
  bool focus = false;
  /// Runnable tasks of each pass at the decision, the one that ran included.
  std::array<std::uint32_t, kPasses> runnable{};
  /// Microbatches here or offered that the limit kept out.
  std::uint32_t held_by_limit = 0;
  /// Gradients here whose accumulation was not yet in turn.
  std::uint32_t held_by_order = 0;
};

/// The decisions of one rank, in order. Appending never allocates: past the reserved room it drops.
class DecisionLog {
 public:
  /// Makes room for `more` further decisions.
  void reserve_more(std::size_t more) {
    const std::size_t needed = decisions_.size() + more;
    // Doubling, so that recording many iterations copies each decision a bounded number of times.
    if (needed > decisions_.capacity()) decisions_.reserve(std::max(needed, 2 * decisions_.capacity()));
  }

  void append(const Decision& decision) noexcept {
    if (decisions_.size() == decisions_.capacity()) {
      ++dropped_;
      return;
    }
    decisions_.push_back(decision);
  }

  [[nodiscard]] std::span<const Decision> decisions() const noexcept { return decisions_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  void clear() noexcept {
    decisions_.clear();
    dropped_ = 0;
  }

 private:
  std::vector<Decision> decisions_;
  std::uint64_t dropped_ = 0;
};

}  // namespace sluice
