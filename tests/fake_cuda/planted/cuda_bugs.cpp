#include <array>

#include "planted_bug.hpp"

namespace planted {

std::span<const std::span<const PlantedBug>> all_bugs() {
  static const std::array kBugs = {stream_bugs(), graph_bugs(), host_bugs(), memory_bugs(), process_bugs()};
  return kBugs;
}

}  // namespace planted
