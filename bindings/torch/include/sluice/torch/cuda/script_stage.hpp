#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/graphs/capture_target.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/torch/capture_check_input.hpp"

namespace sluice::capture {

struct ScriptOptions {
  /// Ordinal of the device it runs on.
  int device = 0;
  /// Of the memory that it will run on.
  std::uint32_t slots = 1;
  /// Of dropout and other draws on the device, which depend on it, the iteration, the chunk and the
  /// microbatch alone.
  std::uint64_t seed = 1;
  Chunk chunk = 0;
  /// The weight gradients are a task of their own. Autograd then runs twice: once for the gradients of the
  /// inputs, once for those of the parameters.
  bool split = false;
};

/// A TorchScript module as code to be captured: moved to the device, run there once to learn what it returns.
///
/// Each tensor of `inputs` is one of the input edge; a number is the same in every call. The module's results
/// are the tensors of the output edge, in order; a single floating-point number is a loss, whose gradient is
/// 1, and there is no output edge. The gradients of its parameters are accumulated into tensors that are
/// allocated once, and belong, with the module's buffers, to the stage's state. A tensor of whole numbers has
/// a gradient of zeros.
///
/// Where `torch_has_cuda()` is false, nothing can be loaded. Not yet run on a device: see README.md of
/// bindings/torch.
/// @throws ConfigError naming `device` (no CUDA in this LibTorch, or as cuda::use_device), `module` (as
///         check_capture; what runs on no device, returns something else than tensors, or has no backward),
///         `input` (as check_capture), `slots`, or a setting of torch's allocator that captures cannot work
///         with
[[nodiscard]] graphs::CaptureTarget load_script(const std::string& path, const std::vector<Input>& inputs,
                                                const ScriptOptions& options);

/// This program is linked with a LibTorch that has CUDA.
[[nodiscard]] bool torch_has_cuda() noexcept;

}  // namespace sluice::capture
