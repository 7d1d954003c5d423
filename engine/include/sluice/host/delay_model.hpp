#pragma once

#include <cstdint>
#include <string_view>

#include "sluice/clock.hpp"
#include "sluice/transport.hpp"

namespace sluice::host {

/// Running average of a stage's compute times: e = 0.9 e + 0.1 c, from 0.
class ComputeAverage {
 public:
  void add(Duration compute) noexcept;
  [[nodiscard]] Duration value() const noexcept;

 private:
  double average_ns_ = 0;
};

/// By how much messages arrive late.
///
/// The levels j0 to j3 are those of the RRFP paper (arXiv 2605.18750, robustness experiments): with
/// probability p, a delay of alpha * max(base, e) * (0.5 + r), e the stage's compute average and r
/// uniform in [0, 1). The heavy tail adds, with probability p, an exponential delay. Of both, each has
/// draws of its own and the delays add up.
class DelayModel {
 public:
  static constexpr Duration kLongestMean = std::chrono::minutes(10);

  /// No delays, as `j0`.
  DelayModel() = default;

  /// Reads `j0`, `j1`, `j2`, `j3`, `tail:p,mean` with the mean in milliseconds, or `tail:p,mean+j1`.
  /// @throws ConfigError for field `jitter`
  [[nodiscard]] static DelayModel parse(std::string_view text);

  /// Delay of one message, often 0. The random part depends on the seed and the message alone.
  /// @param compute_average used by the levels j1 to j3
  [[nodiscard]] Duration draw(std::uint64_t seed, const MessageId& message, Duration compute_average) const;

  /// No message is ever late.
  [[nodiscard]] bool none() const noexcept { return tail_.probability == 0 && level_.probability == 0; }
  /// Delays depend on the compute average: the levels j1 to j3.
  [[nodiscard]] bool uses_average() const noexcept { return level_.probability != 0; }

 private:
  struct Tail {
    double probability = 0;
    double mean_ns = 0;
  };
  struct Level {
    double probability = 0;
    double base_ns = 0;
    double alpha = 0;
  };

  static Tail parse_tail(std::string_view parameters);
  static Level parse_level(std::string_view name, std::string_view whole);

  Tail tail_;
  Level level_;
};

}  // namespace sluice::host
