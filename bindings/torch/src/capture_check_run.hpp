#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

#include "capture_check_module.hpp"
#include "capture_check_observer.hpp"
#include "sluice/torch/capture_check_input.hpp"

namespace sluice::capture {

/// Two sets of values for the same inputs. Their signs and sizes differ, so that conditions do.
enum class Variant { One, Other };

struct RunSettings {
  const std::vector<Input>& inputs;
  std::uint64_t seed;
  Variant variant;
  c10::Device device;
  /// The inputs and the results are parts of an autograd graph.
  bool train;
};

/// One call of a module.
class CheckedRun {
 public:
  /// @param observer null if nothing observes
  CheckedRun(CheckedModule& module, Observer* observer, const RunSettings& settings);

  /// @throws what the module throws
  void forward();
  /// Adds what the results and the module's state show to the observer's findings.
  void judge();
  /// Empty if there is a backward.
  [[nodiscard]] std::string why_no_backward() const;
  void backward();

 private:
  void judge_results();
  void judge_state();
  void judge_attribute(const Attribute* before, const Attribute& after);
  [[nodiscard]] std::vector<at::Tensor> results_with_gradients() const;

  CheckedModule& module_;
  Observer* observer_;
  RunSettings settings_;
  std::vector<c10::IValue> arguments_;
  std::vector<Attribute> before_;
  c10::IValue results_;
};

}  // namespace sluice::capture
