#include "report/trace_summary.hpp"

#include <nlohmann/json.hpp>

#include "option/trace_input.hpp"
#include "report/trace_report.hpp"

namespace sluice::tools {
namespace {

using nlohmann::json;

json distribution_json(const trace::Distribution& distribution) {
  return {{"count", distribution.count},
          {"mean_s", distribution.mean_s},
          {"p50_s", distribution.p50_s},
          {"p95_s", distribution.p95_s},
          {"max_s", distribution.max_s}};
}

}  // namespace

TraceSummary::TraceSummary(const trace::Recording& recording, const trace::RecordedRun& recorded)
    : run(recorded),
      stages(trace::stage_times(recorded)),
      overhead(trace::start_overhead(recorded, emulated_message_time(recording, recorded))),
      noticing(trace::noticing(recorded)),
      edges(trace::edge_summaries(recorded)),
      reordered(trace::reordered_tasks(recorded)) {}

json TraceSummary::to_json() const {
  const Pipeline& pipeline = run.pipeline;
  json by_stage = json::array();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    by_stage.push_back(parts_json(stages[i], pipeline));
    by_stage.back()["reordered"] = reordered[i];
  }
  json by_edge = json::array();
  for (const trace::EdgeSummary& each : edges) {
    by_edge.push_back({{"edge", each.edge},
                       {"name", trace::edge_name(pipeline, each.edge, each.direction)},
                       {"time", distribution_json(each.time)},
                       {"held", distribution_json(each.held)}});
  }
  return {{"method", run.method},
          {"iterations", run.iterations.size()},
          {"total_s", total_seconds(run)},
          {"lost_events", run.lost},
          {"per_stage", by_stage},
          {"start_overhead",
           {{"bound_by_stage", distribution_json(overhead.bound_by_stage)},
            {"bound_by_message", distribution_json(overhead.bound_by_message)}}},
          {"noticing", distribution_json(noticing)},
          {"edges", by_edge}};
}

}  // namespace sluice::tools
