// A plug-in that does not answer as it should: $ANSWER says what, and without it there is an exception.

#include <cstdlib>
#include <stdexcept>

#include "sluice/graphs/plugin.hpp"

extern "C" int sluice_capture_targets(sluice::graphs::PluginCall* /*call*/) {
  const char* const answer = std::getenv("ANSWER");
  if (answer == nullptr) throw std::runtime_error("not caught");
  return std::atoi(answer);
}
