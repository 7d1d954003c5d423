#pragma once

#include <cstddef>
#include <string_view>

namespace fakecuda {

/// Counts what other libraries than the runtime make, for `fakecuda_live`.
void count_live(std::string_view kind, int change);
[[nodiscard]] std::size_t counted_live(std::string_view kind);

}  // namespace fakecuda
