#pragma once

#include <cstdint>

namespace fakecuda {

/// A number from the environment, or `otherwise` where the variable is not set.
[[nodiscard]] long setting(const char* name, long otherwise);

[[nodiscard]] int device_count();
/// Of one device.
[[nodiscard]] std::uint64_t device_memory();
[[nodiscard]] int driver_version();
[[nodiscard]] bool peers_allowed();

}  // namespace fakecuda
