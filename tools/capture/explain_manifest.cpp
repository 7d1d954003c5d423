#include <fmt/format.h>

#include <optional>
#include <string>

#include "capture/capture_options.hpp"
#include "option/input_file.hpp"
#include "option/limits.hpp"
#include "sluice/graphs/explain.hpp"
#include "sluice/graphs/manifest.hpp"

namespace sluice::tools {
namespace {

/// NVIDIA's figures unless the user has some of the own machine.
graphs::LaunchCost launch_cost(const CaptureOptions& options) {
  graphs::LaunchCost cost;
  if (!options.launch_us.has_value()) return cost;
  cost.least_us = cost.most_us = *options.launch_us;
  cost.least_node_us = cost.most_node_us = options.launch_node_us.value_or(0);
  cost.source = "from the figures given with --launch-us and --launch-node-us";
  return cost;
}

}  // namespace

void explain_manifest(const CaptureOptions& options) {
  std::optional<std::uint64_t> memory;
  if (!options.memory.empty()) memory = parse_bytes("memory", options.memory);
  const graphs::Manifest manifest = graphs::read_manifest(read_file("explain", options.manifest));
  fmt::print("{}", graphs::explain(manifest, memory, launch_cost(options)));
}

}  // namespace sluice::tools
