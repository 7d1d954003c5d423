#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ipc_ring.hpp"
#include "ipc_segment.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

/// One tensor of an offered message.
struct IpcTensor {
  /// In the block that holds the sender's slots.
  std::uint64_t offset = 0;
  TensorShape shape;
};

/// A record of a ring. An offer's tensors follow it.
struct IpcMessage {
  enum class Kind : std::uint32_t { Offer, Taken };

  Kind kind = Kind::Offer;
  /// Names the message to its sender.
  std::uint32_t token = 0;
  MessageId id;
  std::uint64_t tensors = 0;
};
static_assert(sizeof(IpcMessage) % alignof(IpcTensor) == 0);

/// What passes between a rank and one of its neighbours, which both must count alike.
struct IpcTraffic {
  StageId from = 0;
  /// Most tensors of a message.
  std::uint32_t tensors = 0;
  /// Most words that may be on the way to the rank at once.
  std::uint64_t words = 0;

  friend bool operator==(const IpcTraffic&, const IpcTraffic&) = default;
};

enum class IpcState : std::uint32_t {
  Here,
  /// It has left in order, and holds no memory of others any more.
  Left,
  /// It has left because the run failed.
  GaveUp,
};

/// Where a rank finds the words of its neighbours: a ring for each of them, the word on which the rank
/// sleeps, and whether it is still there, in memory that all of them see.
class IpcMailbox {
 public:
  /// A mailbox of one's own.
  /// @param token a number by which others know that they opened the right memory
  IpcMailbox(std::uint64_t token, std::span<const IpcTraffic> traffic);
  /// That of another rank.
  /// @throws Error if it is not the one with that token
  IpcMailbox(std::shared_ptr<IpcSegment> segment, std::uint64_t token);

  /// The ring of one neighbour.
  /// @throws ConfigError naming `pipeline` or `layouts` if its ends count differently
  [[nodiscard]] IpcRing ring(const IpcTraffic& traffic) const;
  [[nodiscard]] std::atomic<std::uint32_t>& sleeper() const noexcept;
  [[nodiscard]] IpcState state() const noexcept;
  void set_state(IpcState state) const noexcept;

  [[nodiscard]] const std::shared_ptr<IpcSegment>& segment() const noexcept { return segment_; }

 private:
  struct Head;
  struct Entry;

  [[nodiscard]] Head& head() const noexcept;
  [[nodiscard]] std::span<Entry> entries() const noexcept;
  [[nodiscard]] static std::size_t bytes(std::span<const IpcTraffic> traffic) noexcept;

  std::shared_ptr<IpcSegment> segment_;
};

}  // namespace sluice::cuda
