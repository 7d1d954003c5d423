#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "command/commands.hpp"
#include "option/options.hpp"
#include "report/capture_report.hpp"
#include "report/results.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/capture_check.hpp"

namespace sluice::tools {
namespace {

struct CaptureOptions {
  std::string module;
  std::vector<std::string> inputs;
  bool check = false;
  bool forward_only = false;
  std::uint64_t seed = 1;
  OutputOptions output;
};

void run_capture(const CaptureOptions& options) {
  if (!options.check) {
    throw ConfigError("check", "capturing needs a GPU and is not part of this build: only --check is");
  }
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

}  // namespace

void add_capture(CLI::App& app) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command =
      app.add_subcommand("capture", "Check that a stage can be captured into CUDA graphs, without a GPU");
  command->add_option("module", options->module, "TorchScript file of the stage")->required();
  command->add_flag("--check", options->check,
                    "Execute the stage and its backward under observation, and report what would stop a "
                    "capture or make its replays wrong: exit code 0 if nothing would, 1 if something would");
  command
      ->add_option(
          "--input", options->inputs,
          "An argument of forward, in order, once for each: float32[4,64,96], a random tensor; "
          "int64[4,64]:50257, random numbers below 50257 (2 where no bound is given); int=3, float=0.5 or "
          "bool=true")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_flag("--forward-only", options->forward_only, "Leave the backward out");
  command->add_option("--seed", options->seed, "Of the inputs")
      ->check(check_whole_number)
      ->capture_default_str();
  command->add_option("--json", options->output.json, "Write the findings as JSON");
  command->footer(
      "Examples:\n"
      "  sluice capture stage.pt --check --input float32[4,64,96]\n"
      "  sluice capture first_stage.pt --check --input int64[4,64]:50257 --json findings.json");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_capture(*options);
  });
}

}  // namespace sluice::tools
