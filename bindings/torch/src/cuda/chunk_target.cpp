#include "sluice/torch/cuda/chunk_target.hpp"

#include <memory>
#include <string>
#include <utility>

#include "autograd_stage.hpp"
#include "cuda_device.hpp"
#include "model_chunk.hpp"

namespace sluice::gpt {

graphs::CaptureTarget load_chunk(const GptConfig& config, const std::shared_ptr<const TextData>& text,
                                 const ChunkTargetOptions& options) {
  auto device = std::make_unique<capture::CudaDevice>(
      capture::CudaDevice::Options{options.device, options.slots, config.seed, options.chunk});
  ModelChunk chunk = make_model_chunk(config, text, options, device->device());
  graphs::CaptureTarget target;
  target.name = "chunk " + std::to_string(options.chunk) + " of " + std::to_string(options.chunks);
  target.inputs = std::move(chunk.inputs);
  target.outputs = std::move(chunk.outputs);
  target.split = true;
  target.stage = std::make_unique<capture::AutogradStage>(std::move(device), std::move(chunk.code));
  return target;
}

}  // namespace sluice::gpt
