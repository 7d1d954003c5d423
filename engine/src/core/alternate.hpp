#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sluice/task.hpp"

namespace sluice {

/// Warm-up forwards, then pairs, then the remaining backwards.
[[nodiscard]] inline std::vector<Task> alternate(std::uint32_t total, std::uint32_t warm_up,
                                                 const auto& forward, const auto& backward) {
  std::vector<Task> order;
  order.reserve(std::size_t{total} * 2);
  warm_up = std::min(warm_up, total);
  for (std::uint32_t i = 0; i < warm_up; ++i) order.push_back(forward(i));
  for (std::uint32_t i = warm_up; i < total; ++i) {
    order.push_back(forward(i));
    order.push_back(backward(i - warm_up));
  }
  for (std::uint32_t i = total - warm_up; i < total; ++i) order.push_back(backward(i));
  return order;
}

}  // namespace sluice
