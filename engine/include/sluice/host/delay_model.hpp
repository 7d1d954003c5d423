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
/// uniform in [0, 1). The heavy tail adds, with probability p, an exponential delay.
class DelayModel {
 public:
  static constexpr Duration kLongestMean = std::chrono::minutes(10);

  /// No delays, as `j0`.
  DelayModel() = default;

  /// Reads `j0`, `j1`, `j2`, `j3`, or `tail:p,mean` with the mean in milliseconds.
  /// @throws ConfigError for field `jitter`
  [[nodiscard]] static DelayModel parse(std::string_view text);

  /// Delay of one message, often 0. The random part depends on the seed and the message alone.
  /// @param compute_average used by the levels j1 to j3
  [[nodiscard]] Duration draw(std::uint64_t seed, const MessageId& message, Duration compute_average) const;

  /// No message is ever late.
  [[nodiscard]] bool none() const noexcept { return probability_ == 0; }
  /// Delays depend on the compute average: the levels j1 to j3.
  [[nodiscard]] bool uses_average() const noexcept { return kind_ == Kind::Level && !none(); }

 private:
  enum class Kind : std::uint8_t { Level, Tail };

  DelayModel(Kind kind, double probability, double scale_ns, double alpha) noexcept
      : kind_(kind), probability_(probability), scale_ns_(scale_ns), alpha_(alpha) {}

  static DelayModel parse_tail(std::string_view parameters);

  Kind kind_ = Kind::Level;
  double probability_ = 0;
  /// The base of a level, the mean of a tail.
  double scale_ns_ = 0;
  double alpha_ = 0;
};

}  // namespace sluice::host
