#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "capture/capture_options.hpp"
#include "report/capture_report.hpp"
#include "report/results.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/capture_check.hpp"

namespace sluice::tools {

void check_module(const CaptureOptions& options) {
  capture::CheckSettings settings;
  for (const std::string& input : options.inputs) settings.inputs.push_back(capture::Input::parse(input));
  settings.seed = options.seed;
  settings.forward_only = options.forward_only;
  options.output.check({options.module});
  const capture::CheckReport report = capture::check_capture(options.module, settings);
  fmt::print("{}", capture_text(report));
  Results results;
  results.summary = capture_json(options.module, settings, report);
  write_results(options.output, results);
  std::fflush(stdout);
  if (!report.capturable()) throw Error(capture_verdict(report));
}

}  // namespace sluice::tools
