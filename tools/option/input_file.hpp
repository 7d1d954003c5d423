#pragma once

#include <cstdint>
#include <string>

namespace sluice::tools {

/// Largest file that is read, in bytes.
inline constexpr std::uint64_t kLargestInput = std::uint64_t{1} << 30U;

/// All bytes of a file.
/// @param field the option or setting that gave the path
/// @throws ConfigError for `field`: the path is a folder, cannot be read, or holds more than `kLargestInput`
[[nodiscard]] std::string read_file(const std::string& field, const std::string& path);

}  // namespace sluice::tools
