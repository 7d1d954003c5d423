#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sluice/agree/group_agreement.hpp"
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
  /// Longest wait for the neighbours when the transport begins.
  Duration patience = std::chrono::seconds(60);
  /// Longest wait for its puts, and for the neighbours, when it ends.
  Duration closing = std::chrono::seconds(10);
};

/// What a rank brings to its transport. All of it outlives the transport.
struct PutMember {
  const Pipeline& pipeline;
  StageId stage = 0;
  /// Which rank has each stage of the pipeline.
  std::span<const std::uint32_t> rank_of_stage;
  /// Its block was made with `window_block`.
  cuda::SlotMemory& slots;
  /// Between all ranks of the pipeline, in rank order: offers, grants and what was taken go here.
  agree::GroupChannel& messages;
  const Clock& clock;
};

/// A line for the user if CUDA_DEVICE_MAX_CONNECTIONS makes compute wait for messages.
[[nodiscard]] std::optional<std::string> connections_warning();

/// Carries messages between ranks of any hosts with NCCL's one-sided puts: the sender offers, the receiver
/// grants a slot, the sender puts the payload into that slot and then a header into a ring. Every put gives a
/// signal; the receiver's stream waits for those of a message at once. Signals count per communicator and
/// peer, so every directed edge has a communicator of its own, on whose stream one wait is armed. Edges
/// between two chunks of one rank are copied within the device.
///
/// What lies in a slot when `send` is called is complete: its task has been seen to end. The shapes of its
/// tensors travel with the message and are set in the receiver's slot when the message is accepted.
///
/// The channel is the transport's alone, and notifies of what neighbours say; no device notifies of the end
/// of a put: the deadline is `kAnyTime` while one is under way.
///
/// Used by one thread, on the rank's device.
class PutTransport final : public Transport {
 public:
  /// What the channel must be able to carry.
  /// @param layouts by edge of the pipeline
  [[nodiscard]] static agree::ChannelNeeds needs(const Pipeline& pipeline,
                                                 std::span<const cuda::EdgeLayout> layouts);

  /// All ranks that share `all_gather` make one at the same time; if one fails, all do.
  /// @throws ConfigError naming `nccl`, `stage`, `ranks`, `pipeline` or `slots`; NcclError naming the edge
  ///         and the ranks that cannot be joined; CudaError; Error with what another rank said
  PutTransport(const PutMember& member, const cuda::AllGather& all_gather, const PutOptions& options = {});
  /// Waits for the puts under way and for the neighbours to end too, not after an error or `abandon`, and
  /// never for longer than the options say. Destroyed by an exception, it abandons.
  ~PutTransport() override;
  PutTransport(const PutTransport&) = delete;
  PutTransport& operator=(const PutTransport&) = delete;

  /// The run has failed, which an error of the transport says too: communicators are aborted, the neighbours
  /// get an error, and nobody is waited for.
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
