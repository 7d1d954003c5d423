#include "report/results.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "sluice/trace/chrome_trace.hpp"
#include "sluice/trace/output_file.hpp"
#include "sluice/trace/recording_json.hpp"
#include "sluice/trace/timeline_html.hpp"
#include "sluice/trace/timeline_svg.hpp"

namespace sluice::tools {
namespace {

/// Names of files may hold bytes that are not UTF-8, which JSON cannot: they are replaced.
std::string text_of(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

void write_named(const char* what, const std::string& path, const std::string& contents) {
  trace::write_file_atomically(path, contents);
  fmt::print("{:<10} {}\n", what, path);
}

std::string draw_timelines(const std::string& path, const std::vector<trace::MethodTimeline>& timelines) {
  const bool svg = std::filesystem::path(path).extension() == ".svg";
  return svg ? trace::timeline_svg(timelines) : trace::timeline_html(timelines);
}

void write_results(const OutputOptions& output, const Results& results) {
  if (!output.json.empty()) write_named("results", output.json, text_of(results.summary, 2));
  if (!output.timeline.empty())
    write_named("timeline", output.timeline, draw_timelines(output.timeline, results.timelines));
  if (!output.trace.empty()) write_named("trace", output.trace, trace::chrome_trace(results.timelines));
  if (!output.decisions.empty()) write_named("decisions", output.decisions, text_of(results.decisions, -1));
  if (!output.record.empty()) {
    write_named("recording", output.record,
                trace::write_recording({text_of(results.summary["config"], -1), results.recorded}));
  }
}

}  // namespace sluice::tools
