#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "edge_ends.hpp"
#include "ipc_link.hpp"
#include "record_pool.hpp"
#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/host/spsc_ring.hpp"

namespace sluice::cuda {

/// A message on its way from this rank.
struct IpcSending {
  MessageId id;
  Slot slot = kNoSlot;
  const IpcLink* link = nullptr;
  bool used = false;
  IpcSending* next_free = nullptr;
};

/// A message on its way to this rank, from its offer to its arrival.
struct IpcReceiving : StreamedMessage {
  IpcLink* link = nullptr;
  /// As the sender calls it.
  std::uint32_t token = 0;
  std::vector<IpcTensor> tensors;
  /// Shapes of the tensors, as an offer shows them.
  std::vector<TensorShape> shapes;
  IpcReceiving* next_free = nullptr;
};

class IpcTransport::Impl {
 public:
  Impl(const IpcMember& member, const AllGather& all_gather, const IpcOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool poll(Offer& offer);
  void accept(const Offer& offer, Slot slot);
  bool poll(Arrival& arrival);
  void send(const MessageId& id, Slot slot);
  bool poll(SendDone& done);
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] Wake& wake() noexcept { return wake_; }
  void abandon() noexcept { leave(IpcState::GaveUp); }
  /// An error of the transport is one of the run.
  template <typename Call>
  auto or_abandon(Call call) {
    try {
      return call();
    } catch (...) {
      abandon();
      throw;
    }
  }

 private:
  [[nodiscard]] std::vector<SlotTensor>& incoming(const MessageId& id, Slot slot) {
    return ends_[id.edge].incoming(slots_, id.direction, slot);
  }
  [[nodiscard]] IpcLink& link_with(StageId stage) const;

  void look();
  void take(IpcLink& link, const IpcMessage& message);
  void take_offer(IpcLink& link, const IpcMessage& message);
  void take_back(const IpcLink& link, const IpcMessage& message);
  void check_offer(const IpcLink& link, const IpcMessage& message) const;
  void check_fits(const IpcReceiving& message, std::span<const SlotTensor> tensors) const;
  void write_offer(IpcLink& link, const IpcSending& sending, std::span<const SlotTensor> tensors);
  void pull(IpcReceiving& message, std::span<SlotTensor> tensors);
  void finish(IpcReceiving& message);
  [[nodiscard]] std::byte* record_to(const IpcLink& link) const;

  void look_after_neighbours();
  void look_after(const IpcLink& link) const;
  [[nodiscard]] std::string under_way(const IpcLink& link) const;
  void leave(IpcState state) noexcept;
  [[nodiscard]] bool all_left() const noexcept;
  [[nodiscard]] std::string where() const { return fmt::format("rank {}", rank_); }
  [[nodiscard]] static std::string peer(const IpcLink& link) {
    return fmt::format("rank {} (stage {})", link.rank(), link.stage());
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::uint32_t rank_;
  SlotMemory& slots_;
  const Clock& clock_;
  IpcOptions options_;
  IpcConnections connections_;
  IpcWake wake_;
  /// By stage; null for one that is no neighbour.
  std::vector<IpcLink*> link_of_stage_;
  std::vector<EdgeEnds> ends_;
  RecordPool<IpcSending> sendings_;
  RecordPool<IpcReceiving> receivings_;
  host::SpscRing<IpcReceiving*> offers_;
  host::SpscRing<SendDone> dones_;
  /// Messages accepted that have not arrived.
  std::size_t pulling_ = 0;
  Time next_health_{};
  /// When it was made: one more when it ends means that an exception ends it.
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace sluice::cuda
