#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sluice/cuda/stage.hpp"
#include "sluice/transport.hpp"

namespace sluice::graphs {

/// A chunk's code to be captured, apart from any pipeline.
struct CaptureTarget {
  /// As people should read it, such as its file.
  std::string name;
  /// What its input edge carries, at its largest; empty for a chunk that makes its own input.
  std::vector<TensorShape> inputs;
  /// What its output edge carries; empty for a chunk that ends in a loss.
  std::vector<TensorShape> outputs;
  /// Its weight gradient can run apart from its backward.
  bool split = false;
  std::unique_ptr<cuda::Stage> stage;
};

}  // namespace sluice::graphs
