#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"

namespace sluice {

/// Activations travel along an edge, gradients against it.
enum class Direction : std::uint8_t { Activation, Gradient };

/// What tells one message of a run from every other.
struct MessageId {
  std::uint64_t iteration = 0;
  Microbatch microbatch = 0;
  EdgeId edge = 0;
  Direction direction = Direction::Activation;

  friend constexpr auto operator<=>(const MessageId&, const MessageId&) = default;
};

/// `activation of edge 2 (chunk 2 to 3), microbatch 5, iteration 1`, as far as `pipeline` knows it.
[[nodiscard]] std::string to_string(const MessageId& id);

/// Element type and extents of one tensor, as a message header carries them.
struct TensorShape {
  static constexpr std::size_t kMaxRank = 8;

  std::uint8_t dtype_code = 0;  ///< DLDataTypeCode
  std::uint8_t dtype_bits = 0;
  std::uint8_t rank = 0;
  std::int64_t extent[kMaxRank] = {};

  friend constexpr bool operator==(const TensorShape&, const TensorShape&) = default;
};

/// A message the sender holds ready. It costs the receiver no memory until it is accepted.
struct Offer {
  MessageId id;
  std::uint64_t bytes = 0;
  /// Names the offer to the transport that made it.
  std::uint64_t handle = 0;
  /// Valid until the offer is accepted.
  std::span<const TensorShape> shapes{};
};

/// An accepted message whose payload now lies in its slot.
struct Arrival {
  MessageId id;
  Slot slot = kNoSlot;
};

/// A sent message whose source slot is no longer needed by the transport.
struct SendDone {
  MessageId id;
  Slot slot = kNoSlot;
};

/// Moves the tensors of a rank's edges, also between two chunks of the same rank. No call blocks.
///
/// Only the rank's own thread calls a transport. Errors of the medium are thrown as `Error`.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual bool poll(Offer& offer) = 0;
  virtual void accept(const Offer& offer, Slot slot) = 0;
  virtual bool poll(Arrival& arrival) = 0;

  /// Offers what the finished task left in `slot` for this edge to the edge's other end.
  virtual void send(const MessageId& id, Slot slot) = 0;
  virtual bool poll(SendDone& done) = 0;

  /// When a poll may next find something although nobody notifies; `kNever` if that cannot be, `kAnyTime` if
  /// the moment is not known.
  [[nodiscard]] virtual Time next_deadline() const = 0;
};

}  // namespace sluice
