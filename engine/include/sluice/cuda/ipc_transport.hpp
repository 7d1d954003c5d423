#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

struct IpcOptions {
  /// The rank does not sleep in the transport's `wake()`: it has to look for its neighbours' words.
  bool sleeps_elsewhere = false;
  /// How often it looks whether its neighbours' processes live and its pulls are well.
  Duration health_interval = std::chrono::milliseconds(10);
  /// Longest wait, when the transport ends, for the neighbours to let go of this rank's memory.
  Duration closing = std::chrono::seconds(1);
};

/// What a rank brings to its transport. All of it outlives the transport.
struct IpcMember {
  const Pipeline& pipeline;
  StageId stage = 0;
  /// Which rank has each stage of the pipeline.
  std::span<const std::uint32_t> rank_of_stage;
  SlotMemory& slots;
  const Clock& clock;
};

/// Every rank gives its bytes and gets everybody's, in rank order, as `process::Bootstrap::all_gather`.
using AllGather = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte> own)>;

/// Carries messages between ranks of one host, processes or threads, each with a device. A receiver pulls
/// what it accepts from the sender's slot into its own on a stream of its own; the stream then writes a
/// number into pinned memory, where the host finds it without a call. Offers and word of what was pulled
/// travel through memory that the two ranks share; it has no name and leaves nothing behind.
///
/// What lies in a slot when `send` is called is complete: its task has been seen to end. The shapes of its
/// tensors travel with the message and are set in the receiver's slot when the message is accepted.
///
/// No device notifies of the end of a pull: the deadline is `kAnyTime` while one is under way.
///
/// Used by one thread, but for `Wake::notify`; the device is current there.
class IpcTransport final : public Transport {
 public:
  /// Connects the rank with its neighbours. All ranks that share `all_gather` make one at the same time; if
  /// one fails, all do.
  /// @throws ConfigError naming `stage` or `ranks`; Error naming the two ranks that cannot be joined and
  ///         why: `pipeline` or `layouts` that differ, or that CUDA IPC does not reach, and what to do then
  IpcTransport(const IpcMember& member, const AllGather& all_gather, const IpcOptions& options = {});
  /// Waits for the pulls under way; then until the neighbours have let go of this rank's memory, not after an
  /// error or `abandon`, and never for longer than the options say. Destroyed by an exception, it abandons.
  ~IpcTransport() override;
  IpcTransport(const IpcTransport&) = delete;
  IpcTransport& operator=(const IpcTransport&) = delete;

  /// Where the rank's thread sleeps: a word from a neighbour or a notification ends the wait.
  [[nodiscard]] Wake& wake() noexcept;

  /// The run has failed, which an error of the transport says too: the neighbours get an error, and the end
  /// of the transport does not wait for them.
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

}  // namespace sluice::cuda
