#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "option/options.hpp"

namespace sluice::tools {

/// What `sluice capture` is asked for.
struct CaptureOptions {
  /// A TorchScript file, or empty.
  std::string module;
  std::string plugin;
  /// `name=value`, as given.
  std::vector<std::string> plugin_arguments;
  std::string manifest;  ///< of --explain
  bool check = false;

  std::vector<std::string> inputs;
  bool forward_only = false;
  bool split = false;
  std::uint64_t seed = 1;

  std::optional<std::uint32_t> slots;
  std::string folder;
  int device = 0;
  int warm_ups = 2;
  double tolerance = 0;

  std::string memory;
  std::optional<double> launch_us;
  std::optional<double> launch_node_us;

  OutputOptions output;
};

/// Executes a TorchScript module under observation, without a GPU.
/// @throws Error if something stops its capture; ConfigError
void check_module(const CaptureOptions& options);

/// Captures the chunks of a plug-in or of a TorchScript module, and writes the manifest and a DOT file for
/// each graph.
/// @throws ConfigError; CaptureError; CudaError
void capture_chunks(const CaptureOptions& options);

/// Says what a manifest holds. Needs no device.
/// @throws ConfigError naming `explain`, `memory`, or an entry of the manifest
void explain_manifest(const CaptureOptions& options);

}  // namespace sluice::tools
