#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <string>
#include <vector>

#include "sluice/torch/capture_check_input.hpp"

namespace sluice::capture {

/// Loads a TorchScript module that has a `forward`.
/// @param load torch's own call
/// @throws ConfigError naming `module`
[[nodiscard]] torch::jit::Module load_module(
    const std::string& path, const std::function<torch::jit::Module(const std::string&)>& load);

/// @throws ConfigError naming `input` if the module's `forward` does not take as many
void check_inputs(const torch::jit::Module& module, const std::vector<Input>& inputs);

/// The type of a tensor's elements.
[[nodiscard]] c10::ScalarType type_of(const Input& tensor);

}  // namespace sluice::capture
