#include "sluice/trace/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();

void check(const MethodTimeline& timeline, const TaskSpan& span) {
  const auto refuse = [&](const std::string& reason) {
    throw Error("timeline of " + timeline.name + ", " + to_string(span.task) + ": " + reason);
  };
  if (span.stage >= timeline.stages) {
    refuse("stage " + std::to_string(span.stage) + " of " + std::to_string(timeline.stages));
  }
  if (!std::isfinite(span.start_s) || !std::isfinite(span.end_s)) refuse("a time is not finite");
  if (span.end_s < span.start_s) refuse("ends before it starts");
}

/// Adds up one iteration from its spans in order of stage and start.
class Accumulator {
 public:
  explicit Accumulator(const TaskSpan& first)
      : iteration_(first.iteration), stage_(first.stage), start_s_(first.start_s), end_s_(first.end_s) {}

  void add(const TaskSpan& span) {
    if (span.stage != stage_) covered_until_s_ = kBeforeAll;
    stage_ = span.stage;
    // Lanes of one stage may overlap; time that two of them use counts once.
    busy_s_ += std::max(0.0, span.end_s - std::max(span.start_s, covered_until_s_));
    covered_until_s_ = std::max(covered_until_s_, span.end_s);
    start_s_ = std::min(start_s_, span.start_s);
    end_s_ = std::max(end_s_, span.end_s);
  }

  [[nodiscard]] std::uint64_t iteration() const { return iteration_; }

  [[nodiscard]] IterationSummary summary(std::uint32_t stages) const {
    const double makespan_s = end_s_ - start_s_;
    const double bubble = makespan_s > 0 ? 1 - busy_s_ / (makespan_s * stages) : 0;
    return {iteration_, start_s_, makespan_s, std::clamp(bubble, 0.0, 1.0)};
  }

 private:
  std::uint64_t iteration_;
  std::uint32_t stage_;
  double start_s_;
  double end_s_;
  double busy_s_ = 0;
  double covered_until_s_ = kBeforeAll;
};

}  // namespace

std::vector<IterationSummary> summarize(const MethodTimeline& timeline) {
  for (const TaskSpan& span : timeline.spans) check(timeline, span);
  std::vector<TaskSpan> ordered = timeline.spans;
  std::ranges::sort(
      ordered, {}, [](const TaskSpan& span) { return std::tuple(span.iteration, span.stage, span.start_s); });
  std::vector<IterationSummary> summaries;
  for (std::size_t next = 0; next < ordered.size();) {
    Accumulator sum(ordered[next]);
    while (next < ordered.size() && ordered[next].iteration == sum.iteration()) sum.add(ordered[next++]);
    summaries.push_back(sum.summary(timeline.stages));
  }
  return summaries;
}

std::string describe(Pass pass, bool whole) {
  switch (pass) {
    case Pass::Forward:
      return "forward";
    case Pass::Backward:
      return whole ? "backward" : "input gradient";
    case Pass::WeightGrad:
      return "weight gradient";
  }
  return "unknown";
}

}  // namespace sluice::trace
