#include "sluice/torch/cuda/script_stage.hpp"

#include "sluice/error.hpp"

namespace sluice::capture {

graphs::CaptureTarget load_script(const std::string& path, const std::vector<Input>& /*inputs*/,
                                  const ScriptOptions& options) {
  throw ConfigError("device",
                    "this sluice was built with a LibTorch without CUDA, so " + path +
                        " cannot be captured on device " + std::to_string(options.device) +
                        ": use --check, which needs none, --plugin for a stage without LibTorch, or "
                        "build with a LibTorch that has CUDA");
}

bool torch_has_cuda() noexcept { return false; }

}  // namespace sluice::capture
