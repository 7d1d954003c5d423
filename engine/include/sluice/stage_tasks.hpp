#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/pipeline.hpp"

namespace sluice {

/// Numbers the (chunk, microbatch) pairs of one stage: `index = position * microbatches + microbatch`,
/// where position counts the stage's chunks in ascending order.
class StageTasks {
 public:
  static constexpr std::uint32_t kForeign = ~std::uint32_t{0};

  StageTasks(const Pipeline& pipeline, StageId stage);

  [[nodiscard]] StageId stage() const noexcept { return stage_; }
  [[nodiscard]] Microbatch microbatches() const noexcept { return microbatches_; }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return static_cast<std::uint32_t>(chunks_.size()); }
  [[nodiscard]] std::uint32_t size() const noexcept { return chunks() * microbatches_; }

  [[nodiscard]] Chunk chunk_at(std::uint32_t position) const { return chunks_[position]; }
  /// kForeign for a chunk of another stage.
  [[nodiscard]] std::uint32_t position(Chunk chunk) const { return position_[chunk]; }
  [[nodiscard]] std::uint32_t index(Chunk chunk, Microbatch microbatch) const {
    return position_[chunk] * microbatches_ + microbatch;
  }
  [[nodiscard]] Task task(Pass pass, std::uint32_t index) const {
    return {index % microbatches_, chunks_[index / microbatches_], pass};
  }
  /// The task exists and its chunk lives on this stage.
  [[nodiscard]] bool contains(const Task& task) const {
    return task.chunk < position_.size() && position_[task.chunk] != kForeign &&
           task.microbatch < microbatches_;
  }

 private:
  StageId stage_;
  Microbatch microbatches_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> position_;
};

}  // namespace sluice
