#include "sluice/torch/cuda/chunk_target.hpp"

#include "sluice/error.hpp"

namespace sluice::gpt {

graphs::CaptureTarget load_chunk(const GptConfig& /*config*/, const std::shared_ptr<const TextData>& /*text*/,
                                 const ChunkTargetOptions& options) {
  throw ConfigError("device",
                    "this sluice was built with a LibTorch without CUDA, so no chunk can run on device " +
                        std::to_string(options.device) + ": build with a LibTorch that has CUDA");
}

}  // namespace sluice::gpt
