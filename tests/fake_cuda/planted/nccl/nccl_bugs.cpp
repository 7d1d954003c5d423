#include "nccl_bugs.hpp"

#include <array>

namespace planted {

std::span<const std::span<const PlantedBug>> all_bugs() {
  static const std::array kBugs = {put_bugs(), collective_bugs()};
  return kBugs;
}

}  // namespace planted
