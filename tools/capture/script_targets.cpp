#include "capture/script_targets.hpp"

#include "sluice/error.hpp"

#if SLUICE_HAVE_TORCH
#include "sluice/torch/cuda/script_stage.hpp"
#endif

namespace sluice::tools {

#if SLUICE_HAVE_TORCH

void expect_script_support() {
  if (capture::torch_has_cuda()) return;
  throw ConfigError(
      "module",
      "this build's LibTorch has no CUDA, so it can check a TorchScript file, with --check, and "
      "not capture it: build Sluice with a LibTorch that has CUDA, or capture a --plugin");
}

std::vector<graphs::CaptureTarget> script_targets(const CaptureOptions& options) {
  std::vector<capture::Input> inputs;
  for (const std::string& input : options.inputs) inputs.push_back(capture::Input::parse(input));
  capture::ScriptOptions script;
  script.device = options.device;
  script.slots = options.slots.value();
  script.seed = options.seed;
  script.split = options.split;
  std::vector<graphs::CaptureTarget> targets;
  targets.push_back(capture::load_script(options.module, inputs, script));
  return targets;
}

#else

void expect_script_support() {
  throw ConfigError("module",
                    "this build has no LibTorch, so it captures stages of a --plugin only: build Sluice with "
                    "-DSLUICE_TORCH=ON for TorchScript files");
}

std::vector<graphs::CaptureTarget> script_targets(const CaptureOptions& /*options*/) {
  expect_script_support();
  return {};
}

#endif

}  // namespace sluice::tools
