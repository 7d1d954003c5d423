#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sluice/agree/snapshot_agreement.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {

struct AgreementOptions {
  /// How often an attempt that is open looks whether the communicator is well.
  Duration health_interval = std::chrono::milliseconds(10);
  /// Longest wait for a reduction that all members have come to.
  Duration patience = std::chrono::seconds(60);
};

/// Common candidate without a leader, on the device: in each attempt the ranks all-reduce (min) one byte a
/// task over a window of the hint's order, on a stream of the highest priority; a kernel finds the first task
/// of each class that all have, and the host applies the round rule to those. The running task goes on
/// meanwhile.
///
/// Attempts are numbered and opened as in `AttemptAgreement`: a first contribution rings the peers through
/// the channel, and every rank joins at its next poll. A contribution says in which ranks of each class
/// the member's tasks lie. Once all are there the reduction is enqueued, over the ranks that they overlap in:
/// no task that all have lies outside, so that an attempt decides if the contributions share a task that all
/// allow; no reduction waits on the device for a rank that is busy, and all ranks enqueue them in the same
/// order. Without an overlap there is none. Every rank has the outcome at a poll of its own, at the price of
/// a load from pinned memory.
class NcclAgreement final : public agree::SnapshotAgreement {
 public:
  /// All members make it at the same time.
  /// @param channel built for `needs()`; outlives the agreement, as do the clock and the communicator
  /// @param communicator of the group, of this rank's device, with the members' numbers; aborted if the
  ///        agreement fails or ends in the middle of a reduction
  /// @throws ConfigError naming `group` if channel and communicator differ; NcclError naming the group; Error
  ///         if a member does not come within the patience; CudaError
  NcclAgreement(const StageTasks& tasks, agree::GroupChannel& channel, const Clock& clock,
                Communicator& communicator, const AgreementOptions& options = {});
  ~NcclAgreement() override;
  NcclAgreement(const NcclAgreement&) = delete;
  NcclAgreement& operator=(const NcclAgreement&) = delete;

  [[nodiscard]] static agree::ChannelNeeds needs();

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  /// @throws ProtocolError naming the member whose message cannot belong to the group's iteration; NcclError
  ///         naming the group, and the members that are awaited, if one is gone
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override;
  [[nodiscard]] Time next_deadline() const override;

 private:
  struct State;

  void change(const RunnableChange& change) override;
  void take(std::uint32_t from, std::uint64_t attempt, std::span<const std::byte> more) override;
  [[nodiscard]] std::span<const std::byte> snapshot() override;
  [[nodiscard]] bool outcome_known() override;
  [[nodiscard]] std::optional<Task> choose() override;

  void start();
  void look_after();
  [[nodiscard]] std::string awaited() const;

  std::unique_ptr<State> state_;
};

}  // namespace sluice::nccl
