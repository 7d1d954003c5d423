#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <string>

#include "capture/capture_options.hpp"
#include "command/commands.hpp"
#include "option/options.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr int kMostCaptured = 4096;
constexpr int kMostDevices = 1023;
constexpr double kMostMicroseconds = 1e6;

/// CLI::Range takes `nan` for a number of every range.
void expect_finite(const char* option, double value) {
  if (!std::isfinite(value)) throw ConfigError(option, "must be a finite number");
}

/// Options that belong to one of the things that the command does.
void refuse_strangers(const CLI::App& command, const char* task,
                      std::initializer_list<const char*> strangers) {
  for (const char* const name : strangers) {
    if (command.count(name) > 0)
      throw ConfigError(std::string(name).substr(2), std::string("does not go with ") + task);
  }
}

void check(const CLI::App& command, const CaptureOptions& options) {
  refuse_strangers(command, "--check",
                   {"--plugin", "--plugin-args", "--explain", "--slots", "--output", "--split", "--memory",
                    "--launch-us", "--launch-node-us", "--device", "--warm-ups", "--tolerance"});
  if (options.module.empty()) throw ConfigError("module", "give the TorchScript file to check");
#if SLUICE_HAVE_TORCH
  check_module(options);
#else
  throw ConfigError("check",
                    "this build has no LibTorch, which executes the stage: build Sluice with "
                    "-DSLUICE_TORCH=ON");
#endif
}

void explain(const CLI::App& command, const CaptureOptions& options) {
  refuse_strangers(command, "--explain",
                   {"--plugin", "--plugin-args", "--input", "--forward-only", "--slots", "--output",
                    "--split", "--json", "--device", "--warm-ups", "--tolerance", "--seed"});
  if (!options.module.empty())
    throw ConfigError("module", "does not go with --explain, which reads a manifest");
  if (options.launch_node_us.has_value() && !options.launch_us.has_value())
    throw ConfigError("launch-node-us", "needs --launch-us, what a launch takes besides its nodes");
#if SLUICE_HAVE_CUDA
  explain_manifest(options);
#else
  throw ConfigError("explain", "this build has no CUDA: build Sluice where nvcc is, with -DSLUICE_CUDA=ON");
#endif
}

void capture(const CLI::App& command, const CaptureOptions& options) {
  refuse_strangers(command, "a capture",
                   {"--forward-only", "--json", "--memory", "--launch-us", "--launch-node-us"});
  if (options.module.empty() && options.plugin.empty()) {
    throw ConfigError("module",
                      "give a TorchScript file or --plugin to capture, with --check a file to look at, or "
                      "--explain a manifest");
  }
  if (!options.module.empty() && !options.plugin.empty())
    throw ConfigError("plugin", "one thing at a time: a TorchScript file is given too");
  if (options.plugin.empty()) refuse_strangers(command, "a TorchScript file", {"--plugin-args"});
  if (options.module.empty()) refuse_strangers(command, "--plugin", {"--input", "--split", "--seed"});
#if SLUICE_HAVE_CUDA
  if (!options.slots.has_value())
    throw ConfigError("slots", "say for how many slots: every pass is captured once for each");
  if (options.folder.empty())
    throw ConfigError("output", "name the folder for the manifest and the DOT files");
  capture_chunks(options);
#else
  throw ConfigError("capture",
                    "this build has no CUDA, so it captures nothing: build Sluice where nvcc is, with "
                    "-DSLUICE_CUDA=ON");
#endif
}

void run_capture(const CLI::App& command, const CaptureOptions& options) {
  expect_finite("tolerance", options.tolerance);
  expect_finite("launch-us", options.launch_us.value_or(0));
  expect_finite("launch-node-us", options.launch_node_us.value_or(0));
  if (options.check) return check(command, options);
  if (!options.manifest.empty()) return explain(command, options);
  capture(command, options);
}

void declare_what(CLI::App& command, CaptureOptions& options) {
  command.add_option("module", options.module, "TorchScript file of the stage");
  command.add_option("--plugin", options.plugin,
                     "Shared library with stages against the C++ interface, in place of a TorchScript file");
  command.add_option("--plugin-args", options.plugin_arguments, "name=value, for the plug-in")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--explain", options.manifest,
                     "Say what a manifest of an earlier capture holds; needs no device");
  command.add_flag("--check", options.check,
                   "Execute the stage and its backward under observation, and report what would stop a "
                   "capture or make its replays wrong: exit code 0 if nothing would, 1 if something would; "
                   "needs no device");
}

void declare_module(CLI::App& command, CaptureOptions& options) {
  command
      .add_option(
          "--input", options.inputs,
          "An argument of forward, in order, once for each: float32[4,64,96], a random tensor; "
          "int64[4,64]:50257, random numbers below 50257 (2 where no bound is given); int=3, float=0.5 or "
          "bool=true")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_flag("--forward-only", options.forward_only, "Leave the backward out of a check");
  command.add_flag("--split", options.split, "The module's weight gradients are a task of their own");
  command.add_option("--seed", options.seed, "Of the inputs, and of random draws on the device")
      ->check(check_whole_number)
      ->capture_default_str();
  command.add_option("--json", options.output.json, "Write the findings of a check as JSON");
}

void declare_capture(CLI::App& command, CaptureOptions& options) {
  command.add_option("--slots", options.slots, "Slots to capture for, 1 to 4096")
      ->check(CLI::Range(1, kMostCaptured));
  command.add_option("--output", options.folder, "Folder for manifest.json and the DOT files");
  command.add_option("--device", options.device, "Ordinal of the device")
      ->check(CLI::Range(0, kMostDevices))
      ->capture_default_str();
  command.add_option("--warm-ups", options.warm_ups, "Runs of each pass before its capture, 0 to 100")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command
      .add_option("--tolerance", options.tolerance,
                  "Difference between a replay and a run call by call that passes, as a part of the largest "
                  "value in the same tensor, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void declare_explain(CLI::App& command, CaptureOptions& options) {
  command.add_option("--memory", options.memory, "Also say which limit fits in so much memory: 40GiB");
  command
      .add_option(
          "--launch-us", options.launch_us,
          "What a launch takes on the own machine, as tools/gpu_check.sh measures; NVIDIA's published "
          "figures where not given")
      ->check(CLI::Range(0.0, kMostMicroseconds));
  command.add_option("--launch-node-us", options.launch_node_us, "and what each node adds")
      ->check(CLI::Range(0.0, kMostMicroseconds));
}

}  // namespace

void add_capture(CLI::App& app) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* command = app.add_subcommand(
      "capture", "Capture a stage into CUDA graphs, or check without a GPU that this can be done");
  declare_what(*command, *options);
  declare_module(*command, *options);
  declare_capture(*command, *options);
  declare_explain(*command, *options);
  command->footer(
      "Examples:\n"
      "  sluice capture stage.pt --check --input float32[4,64,96]\n"
      "  sluice capture stage.pt --input float32[4,64,96] --slots 8 --output captured\n"
      "  sluice capture --plugin libmystage.so --plugin-args width=64 --slots 8 --output captured\n"
      "  sluice capture --explain captured/manifest.json --memory 40GiB");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_capture(*command, *options);
  });
}

}  // namespace sluice::tools
