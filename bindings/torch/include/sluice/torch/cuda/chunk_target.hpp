#pragma once

#include <cstdint>
#include <memory>

#include "sluice/graphs/capture_target.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/text_data.hpp"

namespace sluice::gpt {

struct ChunkTargetOptions {
  /// Of a chain of so many chunks.
  Chunk chunk = 0;
  std::uint32_t chunks = 1;
  /// Ordinal of the device it runs on.
  int device = 0;
  /// Of the memory that it will run on.
  std::uint32_t slots = 1;
  /// Of one iteration over all replicas: each adds its share of the gradient of the mean loss.
  std::uint32_t microbatches = 1;
  /// Training steps before iteration 0.
  std::uint64_t first_step = 0;
};

/// One chunk of the model that `sluice train` trains, as code for a device; its stage is a
/// capture::TorchStage. Dropout is drawn on the device from (seed, iteration, chunk, microbatch). The data of
/// a microbatch is copied to its slot when its forward is prepared. A forward-only iteration drops nothing,
/// so with dropout it runs call by call.
/// @param text to learn from, in a model without an encoder
/// @throws ConfigError naming a field of the model, `chunk`, `slots`, `microbatches`, `device`, or a setting
///         of torch's allocator
[[nodiscard]] graphs::CaptureTarget load_chunk(const GptConfig& config,
                                               const std::shared_ptr<const TextData>& text,
                                               const ChunkTargetOptions& options);

}  // namespace sluice::gpt
