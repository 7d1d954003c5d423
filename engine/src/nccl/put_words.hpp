#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "sluice/transport.hpp"

namespace sluice::nccl {

/// A message of one edge in one direction: the place of its communicator among all.
[[nodiscard]] constexpr std::uint32_t way_of(EdgeId edge, Direction direction) noexcept {
  return 2U * edge + static_cast<std::uint32_t>(direction);
}

/// What ranks say to each other over the message plane. The tensors' shapes follow an offer, the places for
/// them in the receiver's window a grant.
struct PutWord {
  enum class Kind : std::uint32_t {
    Offer,
    Grant,
    /// The rank has left in order.
    Left,
    /// It has left because the run failed.
    GaveUp
  };

  Kind kind = Kind::Offer;
  /// Names the message to its sender.
  std::uint32_t token = 0;
  MessageId id;
  /// Of its tensors.
  std::uint64_t tensors = 0;
};
static_assert(sizeof(PutWord) % alignof(TensorShape) == 0 && sizeof(PutWord) % alignof(std::uint64_t) == 0);
static_assert(std::is_trivially_copyable_v<PutWord> && std::is_trivially_copyable_v<TensorShape>);

/// An entry of a ring: which message the payload is, whose puts came before it.
struct PutHeader {
  /// Counts the messages of the way.
  std::uint64_t sequence = 0;
  MessageId id;
  std::uint64_t bytes = 0;

  friend bool operator==(const PutHeader&, const PutHeader&) = default;
};
static_assert(std::is_trivially_copyable_v<PutHeader>);

/// Entries of a ring: so many messages may be granted and not here yet.
inline constexpr std::size_t kPutRing = 16;
inline constexpr std::size_t kPutRingBytes = kPutRing * sizeof(PutHeader);

}  // namespace sluice::nccl
