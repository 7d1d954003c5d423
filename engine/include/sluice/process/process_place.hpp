#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice::process {

/// Which process of how many this is, and where they meet, as torchrun says it.
struct ProcessPlace {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  /// Among the processes of this machine; the same as above where nothing else is said.
  std::uint32_t local_rank = 0;
  std::uint32_t local_ranks = 1;
  /// A name or address of rank 0's host.
  std::string host;
  std::uint16_t port = 0;
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and LOCAL_RANK and LOCAL_WORLD_SIZE where they are
/// set; nothing if none of the first four is.
/// @param environment the process's own if empty
/// @throws ConfigError naming the variable that is missing, is no number, or is out of range
[[nodiscard]] std::optional<ProcessPlace> environment_place(const Environment& environment = {});

}  // namespace sluice::process
