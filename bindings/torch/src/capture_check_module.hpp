#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "capture_check_observer.hpp"
#include "sluice/torch/capture_check_input.hpp"

namespace sluice::capture {

/// State that a module holds beside its submodules.
struct Attribute {
  std::string module;
  /// As `cache`, or `items[2]` for a part of it.
  std::string name;
  /// A tensor, or else
  at::Tensor tensor;
  /// of a tensor on the host: what it held.
  at::Tensor contents;
  /// the value as text.
  std::string value;
  /// `file:line` at which the module's code changes it; empty if it does not.
  std::string writer;
};

/// A TorchScript module that is checked.
class CheckedModule {
 public:
  /// @throws ConfigError naming `module`
  explicit CheckedModule(const std::string& path);
  ~CheckedModule();
  CheckedModule(const CheckedModule&) = delete;
  CheckedModule& operator=(const CheckedModule&) = delete;

  /// @throws ConfigError naming `input` if `forward` does not take as many
  void check_inputs(const std::vector<Input>& inputs) const;
  /// Parameters and buffers, as `Module.to` does, and the code's mention of CUDA devices.
  void move_to_device();

  /// @throws what the module's code throws
  c10::IValue forward(std::vector<c10::IValue> arguments);
  void clear_gradients();

  [[nodiscard]] Place current_place() const;
  [[nodiscard]] std::vector<Attribute> state() const;

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace sluice::capture
