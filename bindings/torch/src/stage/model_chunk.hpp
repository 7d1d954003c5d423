#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "deferred_code.hpp"
#include "sluice/torch/cuda/chunk_target.hpp"
#include "sluice/transport.hpp"

namespace sluice::gpt {

/// A chunk's code and what its edges carry at their largest.
struct ModelChunk {
  std::unique_ptr<DeferredCode> code;
  std::vector<TensorShape> inputs;
  std::vector<TensorShape> outputs;
};

/// @throws ConfigError as load_chunk
[[nodiscard]] ModelChunk make_model_chunk(const GptConfig& config,
                                          const std::shared_ptr<const TextData>& text,
                                          const ChunkTargetOptions& options, c10::Device device);

}  // namespace sluice::gpt
