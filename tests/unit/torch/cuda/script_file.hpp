#pragma once

#include <torch/script.h>

#include <string>

#include "temporary_folder.hpp"

namespace sluice::capture::test {

using sluice::test::TemporaryFolder;

/// A module with a trained `weight` [8, 8] and `bias` [8] and a buffer `calls` of one number.
/// @param arguments of `forward`, after self
inline torch::jit::Module module_of(const std::string& arguments, const std::string& body) {
  torch::manual_seed(3);
  torch::jit::Module module("Stage");
  module.register_parameter("weight", torch::randn({8, 8}).set_requires_grad(true), false);
  module.register_parameter("bias", torch::randn({8}).set_requires_grad(true), false);
  module.register_buffer("calls", torch::zeros({1}));
  module.define("def forward(self, " + arguments + "):\n" + body);
  return module;
}

/// y = dropout(gelu(x W + b)), counted.
inline torch::jit::Module dropout_module() {
  return module_of("x",
                   "  self.calls.add_(1)\n  return torch.dropout(torch.gelu(torch.addmm(self.bias, x, "
                   "self.weight)), 0.5, True)\n");
}

}  // namespace sluice::capture::test
