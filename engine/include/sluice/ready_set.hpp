#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A set of hint ranks in [0, capacity): hierarchical bitmaps, 64 children a word.
///
/// insert, erase, contains and first take a number of steps equal to the number of levels: one up to
/// 64 ranks, two up to 4,096, three up to 262,144. Nothing allocates after construction.
class ReadySet {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  ReadySet() = default;
  explicit ReadySet(std::uint32_t capacity);

  [[nodiscard]] bool empty() const noexcept { return top_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }

  [[nodiscard]] bool contains(std::uint32_t rank) const noexcept {
    return ((level_[0][rank / kBits] >> (rank % kBits)) & 1U) != 0;
  }

  /// Inserting a member again changes nothing. True if it was none before.
  bool insert(std::uint32_t rank) noexcept {
    const bool fresh = !contains(rank);
    size_ += fresh ? 1 : 0;
    for (Words& words : level_) {
      if (words.empty()) break;
      words[rank / kBits] |= Word{1} << (rank % kBits);
      rank /= kBits;
    }
    top_ |= Word{1} << (rank % kBits);
    return fresh;
  }

  /// Erasing what is not a member changes nothing. True if it was one.
  bool erase(std::uint32_t rank) noexcept {
    const bool member = contains(rank);
    size_ -= member ? 1 : 0;
    for (Words& words : level_) {
      if (words.empty()) break;
      if ((words[rank / kBits] &= ~(Word{1} << (rank % kBits))) != 0) return member;
      rank /= kBits;
    }
    top_ &= ~(Word{1} << (rank % kBits));
    return member;
  }

  /// The lowest member, or kNone.
  [[nodiscard]] std::uint32_t first() const noexcept {
    if (top_ == 0) return kNone;
    auto rank = static_cast<std::uint32_t>(std::countr_zero(top_));
    for (std::size_t level = levels_; level-- > 0;) {
      rank = rank * kBits + static_cast<std::uint32_t>(std::countr_zero(level_[level][rank]));
    }
    return rank;
  }

  /// The lowest member above `rank`, or kNone. Linear in the words between; not for the hot path.
  [[nodiscard]] std::uint32_t next(std::uint32_t rank) const noexcept;

  void clear() noexcept;

 private:
  using Word = std::uint64_t;
  using Words = std::vector<Word>;
  static constexpr std::uint32_t kBits = 64;
  static constexpr std::size_t kMaxLevels = 4;

  std::uint32_t capacity_ = 0;
  std::uint32_t size_ = 0;
  std::size_t levels_ = 0;
  Words level_[kMaxLevels];
  Word top_ = 0;
};

}  // namespace sluice
