#pragma once

#include <memory>

#include "sluice/agree/group_agreement.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {

/// Common candidate without a leader, on the device: in each attempt the ranks all-reduce (min) one byte a
/// task over a window of the hint's order, on a stream of the highest priority; a kernel finds the first task
/// of each class that all have, and the host applies the round rule to those. The running task goes on
/// meanwhile.
///
/// Attempts are numbered and opened as `AttemptAgreement`'s: a first contribution rings the peers through the
/// channel, and every rank joins at its next poll, so that no all-reduce waits for a rank that has nothing to
/// say. Every rank has an attempt's outcome at a poll of its own.
class NcclAgreement final : public agree::GroupAgreement {
 public:
  /// @param channel built for `needs()`; outlives the agreement, as do the clock and the communicator
  /// @param communicator of the group, of this rank's device, with the members' numbers
  /// @throws ConfigError naming `group` if channel and communicator differ; CudaError
  NcclAgreement(const StageTasks& tasks, agree::GroupChannel& channel, const Clock& clock,
                Communicator& communicator);
  ~NcclAgreement() override;

  [[nodiscard]] static agree::ChannelNeeds needs();

  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void announce(std::span<const RunnableChange> changes) override;
  /// @throws ProtocolError naming the member whose message cannot belong to the group's iteration; NcclError
  ///         if a member is gone
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::nccl
