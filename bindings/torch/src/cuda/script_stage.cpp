#include "sluice/torch/cuda/script_stage.hpp"

#include <memory>
#include <utility>

#include "autograd_stage.hpp"
#include "cuda_device.hpp"
#include "script_code.hpp"

namespace sluice::capture {

graphs::CaptureTarget load_script(const std::string& path, const std::vector<Input>& inputs,
                                  const ScriptOptions& options) {
  auto device = std::make_unique<CudaDevice>(
      CudaDevice::Options{options.device, options.slots, options.seed, options.chunk});
  auto code = std::make_unique<ScriptCode>(path, inputs, device->device());
  graphs::CaptureTarget target;
  target.name = path;
  target.inputs = code->inputs();
  target.outputs = code->outputs();
  target.split = options.split;
  target.stage = std::make_unique<AutogradStage>(std::move(device), std::move(code));
  return target;
}

bool torch_has_cuda() noexcept { return true; }

}  // namespace sluice::capture
