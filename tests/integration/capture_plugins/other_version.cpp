// A plug-in as a program of another version, CUDA or standard library meets it: $OTHER says which.

#include <cstdlib>
#include <string>

#include "sluice/graphs/plugin.hpp"

namespace graphs = sluice::graphs;

extern "C" int sluice_capture_targets(graphs::PluginCall* call) {
  const char* const other = std::getenv("OTHER");
  const std::string what = other != nullptr ? other : "";
  call->plugin = graphs::PluginAbi{};
  if (what == "interface") ++call->plugin.interface_version;
  if (what == "cuda") --call->plugin.cuda_version;
  if (what == "layout") ++call->plugin.layout;
  return static_cast<int>(graphs::PluginAnswer::IsOfAnotherAbi);
}
