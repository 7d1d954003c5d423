#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::capture {

/// One argument of a module, made up for a check.
struct Input {
  enum class Kind { Tensor, Int, Float, Bool };

  Kind kind = Kind::Tensor;
  /// Of a tensor: `float32`, `int64`, ...
  std::string dtype;
  std::vector<std::int64_t> shape;
  /// Values of a tensor of whole numbers are below it.
  std::int64_t bound = 2;
  /// Of a number.
  double value = 0;
  std::int64_t whole = 0;

  /// Reads `float32[4,64,96]`, a random tensor; `int64[4,64]:50257`, random whole numbers from 0 to below
  /// 50257 (2 where no bound is given); `int=3`, `float=0.5` or `bool=true`, a number that stays the same.
  /// @throws ConfigError naming `input`
  [[nodiscard]] static Input parse(const std::string& text);
};

/// `int64[4,64]:50257`
[[nodiscard]] std::string to_string(const Input& input);

}  // namespace sluice::capture
