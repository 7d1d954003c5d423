#include "results.hpp"

#include <fmt/format.h>

#include "sluice/trace/chrome_trace.hpp"
#include "sluice/trace/output_file.hpp"
#include "sluice/trace/timeline_html.hpp"

namespace sluice::tools {
namespace {

void write(const char* what, const std::string& path, const std::string& contents) {
  trace::write_file_atomically(path, contents);
  fmt::print("{:<10} {}\n", what, path);
}

}  // namespace

void write_results(const OutputOptions& output, const Results& results) {
  if (!output.json.empty()) write("results", output.json, results.summary.dump(2) + "\n");
  if (!output.timeline.empty()) write("timeline", output.timeline, trace::timeline_html(results.timelines));
  if (!output.trace.empty()) write("trace", output.trace, trace::chrome_trace(results.timelines));
  if (!output.decisions.empty()) write("decisions", output.decisions, results.decisions.dump() + "\n");
}

}  // namespace sluice::tools
