#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"
#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::nccl {

struct PutOptions {
  /// How often it looks whether its communicators are well.
  Duration health_interval = std::chrono::milliseconds(10);
  /// Longest wait for the neighbours when the transport begins and ends.
  Duration patience = std::chrono::seconds(60);
};

/// What a rank brings to its transport. All of it outlives the transport.
struct PutMember {
  const Pipeline& pipeline;
  StageId stage = 0;
  /// Which rank has each stage of the pipeline.
  std::span<const std::uint32_t> rank_of_stage;
  /// Its block is memory that NCCL can make a window of.
  cuda::SlotMemory& slots;
  /// Between all ranks of the pipeline, in rank order: offers, grants and what was taken go here.
  agree::GroupChannel& messages;
  const Clock& clock;
};

/// Carries messages between ranks of any hosts with NCCL's one-sided puts: the sender offers, the receiver
/// grants a slot, the sender puts the payload into that slot and a header into a ring, and signals once.
/// Signals count per communicator and peer, so every directed edge has a communicator of its own, on whose
/// stream one wait is armed.
///
/// What lies in a slot when `send` is called is complete. Used by one thread, on the rank's device.
class PutTransport final : public Transport {
 public:
  /// Bytes that the channel must carry in one message, and messages that may be unread.
  [[nodiscard]] static std::size_t longest_message(const Pipeline& pipeline);

  /// All ranks that share `all_gather` make one at the same time; if one fails, all do.
  /// @throws ConfigError naming `nccl`, `stage`, `ranks` or `slots`; NcclError naming the edge; Error naming
  ///         the ranks that cannot be joined
  PutTransport(const PutMember& member, const cuda::AllGather& all_gather, const PutOptions& options = {});
  /// Waits for the puts under way, not after an error or `abandon`, and never for longer than the patience.
  ~PutTransport() override;
  PutTransport(const PutTransport&) = delete;
  PutTransport& operator=(const PutTransport&) = delete;

  /// The run has failed: communicators are aborted, and nobody is waited for.
  void abandon() noexcept;

  bool poll(Offer& offer) override;
  void accept(const Offer& offer, Slot slot) override;
  bool poll(Arrival& arrival) override;
  void send(const MessageId& id, Slot slot) override;
  bool poll(SendDone& done) override;
  [[nodiscard]] Time next_deadline() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::nccl
