#include "report/capture_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sluice/torch/capture_check.hpp"

namespace sluice::tools {
namespace {

using capture::CheckReport;
using capture::Finding;
using capture::Severity;

std::size_t count(const CheckReport& report, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(report.findings.begin(), report.findings.end(),
                    [&](const Finding& each) { return each.severity == severity; }));
}

std::string_view pass_of(const Finding& finding) { return finding.backward ? "backward" : "forward"; }

std::string text_of(const Finding& finding) {
  const std::string place = finding.module.empty() ? "(the whole module)" : finding.module;
  std::string text = fmt::format("{}: {} in {}: {} [{}]\n", capture::name_of(finding.severity), finding.op,
                                 place, capture::name_of(finding.fault), pass_of(finding));
  text += fmt::format("    {}\n", finding.what);
  if (!finding.source.empty()) text += fmt::format("    at {}\n", finding.source);
  if (finding.chain.size() > 1) text += fmt::format("    through {}\n", fmt::join(finding.chain, " > "));
  return text + fmt::format("    to do: {}\n", finding.advice);
}

}  // namespace

std::string capture_text(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += text_of(finding) + "\n";
  text += fmt::format("observed {} operators in the forward, ", report.forward_operators);
  text += report.without_backward.empty() ? fmt::format("{} in the backward\n", report.backward_operators)
                                          : fmt::format("no backward: {}\n", report.without_backward);
  if (report.capturable()) text += "nothing found that stops a capture or makes its replays wrong\n";
  return text;
}

std::string capture_verdict(const CheckReport& report) {
  return fmt::format(
      "cannot be captured: {} of the findings stop the capture, {} make its replays silently wrong",
      count(report, Severity::StopsCapture), count(report, Severity::SilentlyWrong));
}

nlohmann::json capture_json(const std::string& module, const capture::CheckSettings& settings,
                            const CheckReport& report) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const capture::Input& input : settings.inputs) inputs.push_back(capture::to_string(input));
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& each : report.findings) {
    findings.push_back({{"fault", capture::name_of(each.fault)},
                        {"severity", capture::name_of(each.severity)},
                        {"pass", pass_of(each)},
                        {"module", each.module},
                        {"operator", each.op},
                        {"chain", each.chain},
                        {"source", each.source},
                        {"what", each.what},
                        {"advice", each.advice}});
  }
  return {{"module", module},
          {"inputs", inputs},
          {"seed", settings.seed},
          {"capturable", report.capturable()},
          {"forward_operators", report.forward_operators},
          {"backward_operators", report.backward_operators},
          {"without_backward", report.without_backward},
          {"findings", findings}};
}

}  // namespace sluice::tools
