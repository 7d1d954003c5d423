#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/clock.hpp"
#include "sluice/task.hpp"

namespace sluice::host {

/// How long the tasks of an emulated device take.
///
/// The times are those of a whole stage for one microbatch; a chunk of a stage with C chunks takes
/// 1/C of them. Each task's time is multiplied by a lognormal factor of mean 1.
class DurationModel {
 public:
  static constexpr Duration kLongest = std::chrono::minutes(10);
  static constexpr double kMaxSigma = 2.0;

  /// Reads `f=10ms,b=20ms,w=10ms,sigma=0.2`, in any order.
  ///
  /// `f` is the forward and `b` the whole backward, `w` of it for the weight gradient (default: half
  /// of b); units are ns, us, ms and s. `sigma` is the standard deviation of the factor's logarithm
  /// (default 0).
  /// @throws ConfigError for field `emulate`, naming the key or the position of the bad item
  [[nodiscard]] static DurationModel parse(std::string_view text);

  /// Time of one task; depends on the arguments and nothing else.
  ///
  /// A whole backward takes exactly as long as the split one and its weight gradient together.
  /// @param whole for a backward: the weight gradient is part of it
  /// @param chunks_per_stage at least 1
  [[nodiscard]] Duration draw(std::uint64_t seed, std::uint64_t iteration, Task task, bool whole,
                              std::uint32_t chunks_per_stage) const;

  [[nodiscard]] Duration forward() const;
  /// The whole backward.
  [[nodiscard]] Duration backward() const;
  /// The part of the backward that is the weight gradient.
  [[nodiscard]] Duration weight_grad() const;
  [[nodiscard]] double sigma() const noexcept { return sigma_; }

 private:
  DurationModel(double forward_ns, double backward_ns, double weight_grad_ns, double sigma) noexcept
      : forward_ns_(forward_ns), backward_ns_(backward_ns), weight_grad_ns_(weight_grad_ns), sigma_(sigma) {}

  double forward_ns_;
  double backward_ns_;
  double weight_grad_ns_;
  double sigma_;
};

}  // namespace sluice::host
