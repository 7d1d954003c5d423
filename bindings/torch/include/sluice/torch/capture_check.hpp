#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/torch/capture_check_input.hpp"

namespace sluice::capture {

/// What stands in the way of a graph capture.
enum class Fault {
  /// The host needs a value of a device tensor, or copies between host and device.
  HostSync,
  /// The shape of a result depends on values of device tensors.
  DynamicShape,
  /// An operator takes a tensor that lies on the host beside those of the device.
  HostTensor,
  /// Random numbers are drawn on the host.
  HostRandom,
  /// Random numbers are drawn on the device, which a replay must be given a new state for.
  DeviceRandom,
  /// Which operators run, or on what shapes, depends on values of the inputs.
  ValueDependentFlow,
  /// Which operators run, or on what shapes, changes from call to call.
  StateDependentFlow,
  /// Memory made by the call is kept in the module's state.
  EscapingMemory,
  /// Memory of an input is kept in the module's state.
  InputKept,
  /// An input is modified in place.
  InputModified,
  /// A result is memory of an input.
  InputReturned,
  /// State of the module that lies on the host changes: a replay does not change it.
  HostState,
  /// The module does not run on a device, or not with a backward.
  DoesNotRun,
};

enum class Severity { Note, Warning, SilentlyWrong, StopsCapture };

/// `host-sync`, ...
[[nodiscard]] std::string_view name_of(Fault fault);
/// `stops capture`, `silently wrong`, `warning` or `note`.
[[nodiscard]] std::string_view name_of(Severity severity);

struct Finding {
  Fault fault{};
  Severity severity{};
  /// In the backward (autograd), of what the forward did there.
  bool backward = false;
  /// Path of the module whose code did it, as `layers.3.attention`; empty for the whole.
  std::string module;
  /// As that code calls it, for example `aten::nonzero`.
  std::string op;
  /// From `op` to the operator that shows the fault.
  std::vector<std::string> chain;
  /// `file:line` of the source that was compiled to TorchScript; empty if unknown.
  std::string source;
  std::string what;
  std::string advice;
};

struct CheckSettings {
  std::vector<Input> inputs;
  std::uint64_t seed = 1;
  /// Check the forward alone.
  bool forward_only = false;
};

struct CheckReport {
  /// Worst first, then in the order found.
  std::vector<Finding> findings;
  /// That the code called in one forward, and autograd in one backward.
  std::uint64_t forward_operators = 0;
  std::uint64_t backward_operators = 0;
  /// Why no backward was checked; empty if one was.
  std::string without_backward;

  /// Nothing stops a capture, and its replays compute what the module does.
  [[nodiscard]] bool capturable() const;
};

/// Executes the `forward` of a TorchScript module, and its backward, on a device that torch's kernels for
/// the host stand in for, and observes every operator: what would stop a CUDA graph capture of it, or make
/// its replays wrong. Needs no GPU. What an operator does follows from its schema and tags (PyTorch,
/// aten/src/ATen/native/tags.yaml); the semantics of a capture from PyTorch's notes on CUDA graphs.
///
/// Runs with two sets of random inputs, and several times.
/// @throws ConfigError naming `module` if the file cannot be loaded, `input` if the inputs are not those of
///         `forward`
/// @throws Error if the module throws on the host, or other users of torch's `PrivateUse1` are in this
/// process
[[nodiscard]] CheckReport check_capture(const std::string& path, const CheckSettings& settings);

}  // namespace sluice::capture
