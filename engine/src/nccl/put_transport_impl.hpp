#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "../cuda/edge_ends.hpp"
#include "../cuda/record_pool.hpp"
#include "put_connections.hpp"
#include "sluice/host/spsc_ring.hpp"
#include "sluice/nccl/put_transport.hpp"

namespace sluice::nccl {

class PutTransport::Impl {
 public:
  Impl(const PutMember& member, const cuda::AllGather& all_gather, const PutOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool poll(Offer& offer);
  void accept(const Offer& offer, Slot slot);
  bool poll(Arrival& arrival);
  void send(const MessageId& id, Slot slot);
  bool poll(SendDone& done);
  [[nodiscard]] Time next_deadline() const;

  void abandon() noexcept;
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
  [[nodiscard]] const cuda::EdgeEnds& ends_of(const MessageId& id) const { return ends_[id.edge]; }
  [[nodiscard]] std::uint32_t rank_of(StageId stage) const { return ranks_[stage]; }
  [[nodiscard]] PutSender* sender_of(const MessageId& id) const {
    return connections_.senders[way_of(id.edge, id.direction)].get();
  }
  [[nodiscard]] PutReceiver* receiver_of(const MessageId& id) const {
    return connections_.receivers[way_of(id.edge, id.direction)].get();
  }

  // Words of the message plane.
  void look();
  void take(std::uint32_t from, std::span<const std::byte> bytes);
  void take_offer(StageId from, const PutWord& word, std::span<const std::byte> shapes);
  void take_grant(StageId from, const PutWord& word, std::span<const std::byte> places);
  void take_farewell(StageId from);
  void check_offer(StageId from, const PutWord& word, std::size_t bytes) const;
  void check_places(StageId from, const PutSending& message) const;
  void say_offer(const PutSending& message);
  void say_grant(const PutReceiving& message);
  void say(StageId to, const PutWord& word, std::size_t bytes);
  void say_to_all(PutWord::Kind kind);

  // Messages.
  [[nodiscard]] PutSending& take_sending();
  [[nodiscard]] PutReceiving& take_receiving();
  void offer_here(PutSending& sending);
  void file_offer(PutReceiving& message);
  void copy_here(PutReceiving& message);
  bool take_arrival(Arrival& arrival);
  void finish(PutReceiving& message, Arrival& arrival);
  void finish(PutSending& message);
  void grant(PutReceiver& receiver);
  void advance_senders();

  // Neighbours.
  void look_after_neighbours();
  [[nodiscard]] std::string under_way(StageId with) const;
  [[nodiscard]] bool puts_under_way() const noexcept;
  void finish_puts(Time until);
  void leave(Time until);
  [[nodiscard]] std::string where() const { return fmt::format("rank {}", rank_of(stage_)); }
  [[nodiscard]] std::string peer(StageId stage) const {
    return fmt::format("rank {} (stage {})", rank_of(stage), stage);
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::vector<std::uint32_t> ranks_;
  cuda::SlotMemory& slots_;
  agree::GroupChannel& messages_;
  const Clock& clock_;
  PutOptions options_;
  std::vector<cuda::EdgeEnds> ends_;
  PutConnections connections_;
  /// For edges between two chunks of this rank.
  cuda::MessageStream copies_;
  /// Where a word is written before it is sent.
  std::vector<std::byte> word_;
  /// By stage: whether it is a neighbour, and whether it has left.
  std::vector<bool> neighbour_;
  std::vector<bool> left_;
  cuda::RecordPool<PutSending> sendings_;
  cuda::RecordPool<PutReceiving> receivings_;
  host::SpscRing<PutReceiving*> offers_;
  host::SpscRing<SendDone> dones_;
  /// Messages sent and not ended, those of them that were granted by other ranks, and messages accepted that
  /// have not arrived.
  std::size_t sending_ = 0;
  std::size_t granted_ = 0;
  std::size_t receiving_ = 0;
  bool abandoned_ = false;
  Time next_health_{};
  /// When it was made: one more when it ends means that an exception ends it.
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace sluice::nccl
