#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "sluice/decision.hpp"
#include "sluice/host/threaded_run.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {

/// One stage over all iterations of a run. Times are seconds.
struct StageStatistics {
  double busy_s = 0;
  /// The device waited for input while tasks of the stage were still to come.
  double blocked_s = 0;
  /// The stage had finished its tasks and waited for the iteration to end.
  double idle_s = 0;
  double dispatch_s = 0;
  std::uint64_t tasks = 0;
  std::uint32_t peak_in_flight = 0;
  /// Decisions that ran a microbatch after a higher one of the same chunk and pass.
  std::uint64_t reordered = 0;

  [[nodiscard]] double dispatch_ns_per_task() const;
};

/// What a run measured, iteration by iteration.
class RunStatistics {
 public:
  RunStatistics(std::string name, std::uint32_t stages);

  /// @param logs the decisions of each stage in this iteration
  void add(const Iteration& iteration, const host::IterationReport& report,
           std::span<const std::span<const Decision>> logs);
  /// An iteration outside of a pipeline: one stage, always busy.
  void add_unpipelined(double duration_s);

  [[nodiscard]] const std::vector<double>& iteration_seconds() const noexcept { return iteration_seconds_; }
  [[nodiscard]] double median_seconds() const;
  /// Share of stages * time in which the devices ran nothing, over all iterations.
  [[nodiscard]] double bubble_fraction() const;
  [[nodiscard]] double last_bubble_fraction() const noexcept { return last_bubble_; }
  [[nodiscard]] std::span<const StageStatistics> stages() const noexcept { return stages_; }
  /// Most (chunk, microbatch) pairs in flight on each stage.
  [[nodiscard]] std::vector<std::uint32_t> peaks_in_flight() const;

  /// `per_stage[]` of the results.
  [[nodiscard]] nlohmann::json per_stage() const;
  /// The newest iterations, as many as a page or a trace can show.
  [[nodiscard]] trace::MethodTimeline timeline() const;
  /// A table for people.
  [[nodiscard]] std::string table() const;

 private:
  void keep_spans(const Iteration& iteration, const host::IterationReport& report);

  std::string name_;
  std::vector<StageStatistics> stages_;
  std::vector<double> iteration_seconds_;
  double last_bubble_ = 0;
  std::deque<std::vector<trace::TaskSpan>> spans_;
  std::size_t kept_ = 0;
};

/// Decisions that ran a microbatch after a higher one of the same chunk and pass.
[[nodiscard]] std::uint64_t count_reordered(std::span<const Decision> decisions);

/// One decision as a JSON object.
[[nodiscard]] nlohmann::json to_json(const Decision& decision);

}  // namespace sluice::tools
