#pragma once

#include <array>
#include <string_view>

#include "sluice/executor.hpp"

namespace sluice::graphs {

inline constexpr std::array<std::string_view, kLanes> kLaneNames{"compute", "weight_grad", "reduction"};

}  // namespace sluice::graphs
