#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/pipeline.hpp"

namespace CLI {
class App;
}

namespace sluice::tools {

/// How the command line bounds what is in flight: by number, or by the memory it takes.
struct LimitOptions {
  std::string limit = "32";
  std::string memory_limit;
  std::string activation_bytes;

  void declare(CLI::App& command);
  /// Whether a limit was asked for, not defaulted.
  [[nodiscard]] static bool given(const CLI::App& command);
  /// One limit a stage.
  /// @param chunks of each stage
  /// @param microbatches of an iteration: memory for more than all of them changes nothing
  /// @throws ConfigError naming `limit`, `memory-limit` or `activation-bytes`, and the stage
  [[nodiscard]] std::vector<std::uint32_t> limits(const CLI::App& command,
                                                  std::span<const std::uint32_t> chunks,
                                                  std::uint32_t microbatches) const;
  /// Bytes that one microbatch takes on each stage; nothing if not given.
  /// @throws ConfigError naming `activation-bytes`
  [[nodiscard]] std::vector<std::uint64_t> bytes(std::size_t stages) const;
};

/// Reads `16` for every stage, `8,7,6,5` by stage, or `total:64` to be spread over the stages.
/// @param chunks of each stage
/// @throws ConfigError naming `limit`
[[nodiscard]] std::vector<std::uint32_t> parse_limits(const std::string& text,
                                                      std::span<const std::uint32_t> chunks);

/// Splits a total of slots among the stages, each stage one fewer than the one before it: a microbatch is
/// in flight longest on the first stage. A stage gets at least one slot a chunk; the sum is the total.
/// @throws ConfigError naming `limit` if the total is too small
[[nodiscard]] std::vector<std::uint32_t> spread_slots(std::uint64_t total,
                                                      std::span<const std::uint32_t> chunks);

/// The limit that lets a stage hold so many slots: the limit itself with one chunk, `limit + C` with C.
[[nodiscard]] constexpr std::uint32_t limit_of_slots(std::uint32_t slots, std::uint32_t chunks) noexcept {
  if (chunks == 1) return slots;
  return slots > chunks ? slots - chunks : 0;
}

/// Bytes of `24GiB`: a number and nothing, B, kB, MB, GB, TB, KiB, MiB, GiB or TiB.
/// @throws ConfigError naming the field
[[nodiscard]] std::uint64_t parse_bytes(const std::string& field, std::string_view text);

/// `1.5 GiB`
[[nodiscard]] std::string bytes_text(std::uint64_t size);

/// Bytes of the peaks of each stage.
/// @param in_flight (chunk, microbatch) pairs
/// @param bytes of a microbatch of all chunks of the stage
[[nodiscard]] std::vector<std::uint64_t> peak_memory(std::span<const std::uint32_t> in_flight,
                                                     std::span<const std::uint64_t> bytes,
                                                     std::span<const std::uint32_t> chunks);

/// A line for people.
/// @param memory one entry a stage, or empty
[[nodiscard]] std::string peak_text(std::span<const std::uint32_t> in_flight,
                                    std::span<const std::uint64_t> memory);

/// Chunks of each stage.
[[nodiscard]] std::vector<std::uint32_t> chunks_by_stage(const Pipeline& pipeline);

}  // namespace sluice::tools
