#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "method/method.hpp"
#include "sluice/sim/world.hpp"
#include "sluice/trace/recorded_run.hpp"

namespace sluice::tools {

/// How long the tasks and messages of a recorded run took, to be had under any other order. A backward
/// recorded whole and asked for in parts, or the other way round, is cut by a share or joined.
class RecordedTimes {
 public:
  /// @param run complete
  /// @param weight_grad_share part of a whole backward that is the weight gradient, where no split backward
  ///        of the same chunk was recorded to tell; in [0, 1]
  /// @throws ConfigError naming `tasks` or `messages` if the run is not complete
  RecordedTimes(const trace::RecordedRun& run, double weight_grad_share);

  /// @param iteration recorded
  /// @param whole for a backward: the weight gradient is part of it
  [[nodiscard]] Duration task(std::uint64_t iteration, const Task& task, bool whole) const;
  [[nodiscard]] Duration task(const Launch& launch) const {
    return task(launch.iteration, launch.task, launch.whole);
  }
  /// From its being sent to its payload lying in the slot, without the wait for one.
  [[nodiscard]] Duration message(const MessageId& id) const;
  /// Mean time from the end of a task to the start of the next one that was ready: what the runtime adds.
  [[nodiscard]] Duration start_overhead() const noexcept { return start_overhead_; }

 private:
  struct Times {
    Duration forward{0};
    /// Whole where `whole` is set, else the input gradient alone.
    Duration backward{0};
    Duration weight_grad{0};
    bool whole = false;
  };

  void read_tasks(const trace::RecordedRun& run);
  void read_shares(double otherwise);
  [[nodiscard]] std::size_t iteration_at(std::uint64_t index) const;

  std::vector<std::uint64_t> iterations_;
  std::size_t chunks_;
  std::size_t microbatches_;
  std::size_t edges_;
  /// By iteration, chunk and microbatch.
  std::vector<Times> tasks_;
  /// By iteration, edge, direction and microbatch.
  std::vector<Duration> messages_;
  /// Of the weight gradient, by chunk.
  std::vector<double> shares_;
  Duration start_overhead_{0};
};

/// The devices and links of a recorded run, for a simulation.
/// @param times outlives the surroundings
[[nodiscard]] sim::Surroundings recorded_surroundings(const trace::RecordedRun& run,
                                                      const RecordedTimes& times);

/// Part of a whole backward that is the weight gradient, where nothing tells.
inline constexpr double kDefaultWeightGradShare = 0.5;

/// Part of a whole backward that is the weight gradient, as far as the settings of the recording tell.
[[nodiscard]] double recorded_share(const trace::Recording& recording);

/// A run of one method on recorded times.
struct Prediction {
  std::string method;
  std::vector<double> iteration_seconds;
  /// One a stage.
  std::vector<std::uint32_t> peak_in_flight;
  double bubble_fraction = 0;

  [[nodiscard]] double total_seconds() const;
};

/// Simulates the recorded iterations under a method.
/// @param method on the run's chunks, edges and microbatches
[[nodiscard]] Prediction predict(const trace::RecordedRun& run, const RecordedTimes& times,
                                 const Method& method);

}  // namespace sluice::tools
