#pragma once

#include <chrono>

#include "sluice/clock.hpp"

namespace sluice {

[[nodiscard]] inline double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace sluice
