#pragma once

#include <span>

#include "planted_bug.hpp"

namespace planted {

std::span<const PlantedBug> put_bugs();
std::span<const PlantedBug> collective_bugs();

}  // namespace planted
