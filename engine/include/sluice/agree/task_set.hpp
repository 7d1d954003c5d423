#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/stage_tasks.hpp"

namespace sluice::agree {

/// Some of the tasks of one stage, one bit each: bit `pass * tasks.size() + index`, 64 to a word.
class TaskSet {
 public:
  static constexpr std::uint32_t kBits = 64;

  explicit TaskSet(const StageTasks& tasks) : tasks_(tasks), words_(words(tasks)) {}

  /// Words that hold the tasks of a stage.
  [[nodiscard]] static std::size_t words(const StageTasks& tasks) {
    return (std::size_t{tasks.size()} * kPasses + kBits - 1) / kBits;
  }

  [[nodiscard]] bool contains(const Task& task) const noexcept {
    const std::size_t bit = bit_of(task);
    return (words_[bit / kBits] >> (bit % kBits) & 1U) != 0;
  }
  void set(const Task& task, bool member) noexcept {
    const std::size_t bit = bit_of(task);
    const std::uint64_t mask = std::uint64_t{1} << (bit % kBits);
    if (member) {
      words_[bit / kBits] |= mask;
    } else {
      words_[bit / kBits] &= ~mask;
    }
  }
  void clear() noexcept { std::fill(words_.begin(), words_.end(), 0); }

  [[nodiscard]] std::span<const std::uint64_t> words() const noexcept { return words_; }
  /// The task of a bit of a word; the bit is below `tasks.size() * kPasses`.
  [[nodiscard]] Task task(std::size_t word, std::uint32_t bit) const {
    const auto at = static_cast<std::uint32_t>(word * kBits + bit);
    return tasks_.task(static_cast<Pass>(at / tasks_.size()), at % tasks_.size());
  }
  /// No bit stands for a task that does not exist.
  [[nodiscard]] bool holds_tasks_only(std::span<const std::uint64_t> words) const noexcept {
    const std::size_t last = std::size_t{tasks_.size()} * kPasses % kBits;
    return last == 0 || words.back() >> last == 0;
  }

 private:
  [[nodiscard]] std::size_t bit_of(const Task& task) const noexcept {
    return static_cast<std::size_t>(task.pass) * tasks_.size() + tasks_.index(task.chunk, task.microbatch);
  }

  StageTasks tasks_;
  std::vector<std::uint64_t> words_;
};

}  // namespace sluice::agree
