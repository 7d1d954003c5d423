#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/graphs/capture_target.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/graphs/manifest.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::graphs {

/// Captures chunks apart from any pipeline, as if all of them lay on one stage. The nth target is chunk n, in
/// errors and in the manifest. Of targets that can be split, the backward is captured as two tasks, and where
/// others cannot, as one too. With the stage's device as the calling thread's current one.
class TargetCapture {
 public:
  /// @throws ConfigError naming `targets` (none, too many, or one without code), `slots` or `layouts`;
  ///         CudaError if memory runs out, saying how many slots would fit
  TargetCapture(std::vector<CaptureTarget> targets, std::uint32_t slots, const GraphCache::Options& options);

  /// Captures and verifies every (chunk, pass, slot).
  /// @param progress as in GraphCache::capture_all
  /// @throws CaptureError naming the target; CudaError
  void run(const std::function<void(std::uint32_t, std::uint32_t)>& progress = {});

  /// @param device its name
  [[nodiscard]] Manifest manifest(const std::string& device) const;
  /// `chunk0_F_slot3.dot` or `chunk0_B_whole_slot3.dot`, of an entry of `cache().captured()`.
  [[nodiscard]] std::string dot_name(std::size_t index) const;
  [[nodiscard]] const GraphCache& cache() const noexcept { return cache_; }
  [[nodiscard]] const std::vector<CaptureTarget>& targets() const noexcept { return targets_; }

 private:
  [[nodiscard]] std::uint32_t place_of(const Launch& launch) const;
  [[nodiscard]] Chunk target_of(Chunk chunk) const { return static_cast<Chunk>(chunk - first_); }

  std::vector<CaptureTarget> targets_;
  Pipeline pipeline_;
  /// The chunk that the first target is.
  Chunk first_;
  cuda::SlotMemory memory_;
  cuda::CompletionBoard board_;
  GraphCache cache_;
};

}  // namespace sluice::graphs
