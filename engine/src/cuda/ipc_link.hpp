#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ipc_mailbox.hpp"
#include "ipc_peer.hpp"
#include "ipc_wake.hpp"
#include "message_stream.hpp"
#include "sluice/cuda/ipc_transport.hpp"

namespace sluice::cuda {

/// What joins a rank with one neighbour, which may be the rank itself: the rings of both directions, the
/// neighbour's memory, and a stream to pull from it.
class IpcLink {
 public:
  /// @throws Error or ConfigError saying why the two cannot be joined
  IpcLink(const IpcTraffic& traffic, StageId own_stage, std::uint32_t rank, const IpcMailbox& own,
          const IpcPlace& own_place, const IpcCard& card);

  [[nodiscard]] StageId stage() const noexcept { return stage_; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }

  /// From the neighbour to this rank.
  [[nodiscard]] const IpcRing& in() const noexcept { return in_; }
  /// To the neighbour.
  [[nodiscard]] const IpcRing& out() const noexcept { return out_; }
  /// The record in `out` is there to be read.
  void post() noexcept;
  void notify() noexcept { wake_.notify(); }

  /// The memory of its slots.
  [[nodiscard]] const std::byte* block() const noexcept { return block_; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] MessageStream& pulls() noexcept { return pulls_; }
  [[nodiscard]] const MessageStream& pulls() const noexcept { return pulls_; }
  /// Waits for the pulls, then lets go of the neighbour's memory.
  void release() noexcept;

  [[nodiscard]] IpcState state() const noexcept { return theirs_.state(); }
  [[nodiscard]] bool process_ended() const noexcept { return process_.ended(); }

 private:
  StageId stage_;
  std::uint32_t rank_;
  bool same_process_;
  IpcMailbox theirs_;
  IpcWake wake_;
  IpcRing in_;
  IpcRing out_;
  ImportedMemory imported_;
  const std::byte* block_;
  std::uint64_t block_bytes_;
  ProcessWatch process_;
  MessageStream pulls_;
};

using IpcLinks = std::vector<std::unique_ptr<IpcLink>>;

/// A rank's mailbox, and its links with its neighbours in the order of their stages.
struct IpcConnections {
  IpcMailbox own;
  IpcLinks links;
};

/// Most words on the way from each neighbouring stage, and their tensors.
[[nodiscard]] std::vector<IpcTraffic> traffic_of(const IpcMember& member);

/// All ranks that share `all_gather` connect.
/// @throws as IpcTransport's constructor
[[nodiscard]] IpcConnections connect(const IpcMember& member, const AllGather& all_gather);

}  // namespace sluice::cuda
