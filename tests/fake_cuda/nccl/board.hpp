#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bell.hpp"

namespace fakenccl {

inline constexpr int kMostRanks = 16;
/// Bytes of an all-reduce that are exchanged at a time.
inline constexpr std::size_t kChunkBytes = std::size_t{64} << 10U;
/// Of one rank's part in a collective call of the host.
inline constexpr std::size_t kNoteBytes = 128;

enum class Presence : std::uint32_t { Absent, Joined, Left, Aborted };

/// What a rank passed to a collective: all ranks must pass the same.
struct CollectiveCall {
  std::uint64_t count;
  int type;
  int operation;
  bool operator==(const CollectiveCall&) const = default;
};

/// What one rank of a communicator shows the others.
struct RankBoard {
  std::atomic<int> process;
  std::atomic<Presence> presence;
  /// Operations that it has enqueued and that have not ended.
  std::atomic<std::uint64_t> pending;
  /// Collectives it has enqueued so far, and chunks that it has put up and that it has read of all.
  std::atomic<std::uint64_t> launched;
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::uint64_t> left;
  CollectiveCall call;
  /// Windows it has deregistered, a bit each.
  std::atomic<std::uint64_t> ended_windows;
  /// Rounds of notes that it has written; a note stays until the round after the next one is written.
  std::atomic<std::uint64_t> rounds;
  std::array<std::array<std::byte, kNoteBytes>, 2> notes;
  alignas(64) std::array<std::byte, kChunkBytes> chunk;
};

/// What the ranks of a communicator share, in memory that begins as zeros.
struct Board {
  std::uint64_t key;
  Bell bell;
  /// How many there are, as the first one to join says.
  std::atomic<int> ranks;
  /// An ncclResult_t that ends what all of them wait for: the ranks disagree.
  std::atomic<int> failure;
  std::array<RankBoard, kMostRanks> rank;
  /// Signals sent so far, by sender and receiver.
  std::array<std::array<std::atomic<std::uint64_t>, kMostRanks>, kMostRanks> signals;
};

}  // namespace fakenccl
