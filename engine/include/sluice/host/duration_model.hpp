#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/clock.hpp"
#include "sluice/task.hpp"

namespace sluice::host {

/// How a task's time varies about its mean: by a factor that every task draws for itself.
enum class Spread : std::uint8_t {
  /// exp(sigma z - sigma^2 / 2), of mean 1.
  Lognormal,
  /// 1 + sigma z, drawn again until it is above 0; its mean is 1 while sigma is small.
  Normal,
};

/// How long the tasks of an emulated device take.
///
/// The times are those of a whole stage for one microbatch; a chunk of a stage with C chunks takes
/// 1/C of them. Each task's time is multiplied by a random factor.
class DurationModel {
 public:
  static constexpr Duration kLongest = std::chrono::minutes(10);
  static constexpr double kMaxSigma = 2.0;

  /// Mean times in nanoseconds.
  struct Times {
    double forward_ns = 0;
    /// The whole backward.
    double backward_ns = 0;
    /// The part of the backward that is the weight gradient.
    double weight_grad_ns = 0;
  };

  /// @throws ConfigError naming `forward`, `backward`, `weight-grad` or `sigma`: times lie in 0 to 10
  ///         minutes, sigma in 0 to 2, and the weight gradient is a part of the backward
  explicit DurationModel(const Times& times, double sigma = 0, Spread spread = Spread::Lognormal);

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
  /// @param size of the microbatch: a factor on the time, at most `kLargestSize`
  [[nodiscard]] Duration draw(std::uint64_t seed, std::uint64_t iteration, Task task, bool whole,
                              std::uint32_t chunks_per_stage, double size = 1) const;
  static constexpr double kLargestSize = 1000;

  /// The model of one of a stage's chunks.
  [[nodiscard]] DurationModel per_chunk(std::uint32_t chunks_per_stage) const;

  [[nodiscard]] Duration forward() const;
  /// The whole backward.
  [[nodiscard]] Duration backward() const;
  /// The part of the backward that is the weight gradient.
  [[nodiscard]] Duration weight_grad() const;
  [[nodiscard]] const Times& times() const noexcept { return times_; }
  [[nodiscard]] double sigma() const noexcept { return sigma_; }
  [[nodiscard]] Spread spread() const noexcept { return spread_; }

 private:
  [[nodiscard]] double factor(std::uint64_t seed, std::uint64_t iteration, const Task& task) const;

  Times times_;
  double sigma_;
  Spread spread_;
};

}  // namespace sluice::host
