#pragma once

#include <cstdint>
#include <optional>

#include "sluice/agree/group_channel.hpp"
#include "sluice/agree/messages.hpp"
#include "sluice/agreement.hpp"
#include "sluice/clock.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::agree {

/// What a channel must be able to carry for an agreement.
struct ChannelNeeds {
  /// Bytes of a message.
  std::size_t longest = 0;
  /// Messages that one member may have sent to another and it has not fetched.
  std::size_t unread = 0;
};

/// What the agreements over a channel have in common: whose turn it is, and what it took.
class GroupAgreement : public Agreement {
 public:
  void begin(const Iteration& iteration, const Arbiter& arbiter) override;
  void device_idle(Time since) override { idle_since_ = since; }
  [[nodiscard]] AgreementStatistics statistics() const override { return statistics_; }

 protected:
  /// @param channel outlives the agreement
  /// @param clock outlives the agreement
  GroupAgreement(const StageTasks& tasks, GroupChannel& channel, const Clock& clock);

  [[nodiscard]] GroupChannel& channel() noexcept { return channel_; }
  [[nodiscard]] std::uint32_t members() const noexcept { return members_; }
  [[nodiscard]] std::uint32_t member() const noexcept { return member_; }
  [[nodiscard]] const MessageReader& reader() const noexcept { return reader_; }
  [[nodiscard]] Time now() const { return clock_.now(); }

  [[nodiscard]] std::uint64_t iteration() const noexcept { return iteration_; }
  /// The iteration before this one.
  [[nodiscard]] std::optional<std::uint64_t> previous() const noexcept { return previous_; }
  /// Decisions in all iterations, and how many of them were made before this one.
  [[nodiscard]] std::uint64_t decisions() const noexcept { return statistics_.decisions; }
  [[nodiscard]] std::uint64_t decisions_before() const noexcept { return decisions_before_; }

  /// This rank has something to run, and says so. Of several calls a decision, the first counts.
  void note_asked();
  /// When this rank first said so for the decision to come; `kNever` if it has not.
  [[nodiscard]] Time asked_since() const noexcept { return asked_since_; }

  /// A fetched message: to another member, and not from this one.
  struct Received {
    std::uint32_t from = 0;
    std::span<const std::byte> bytes;
  };
  /// @throws ProtocolError if the channel names a member that does not exist
  [[nodiscard]] bool receive(Received& message);

  void count_deferrals(std::uint64_t attempts);
  /// Books the decision.
  /// @param stands_from since when it could have been made
  Task decided(const Task& task, Time stands_from, bool picks_differed);

 private:
  GroupChannel& channel_;
  const Clock& clock_;
  MessageReader reader_;
  std::uint32_t members_;
  std::uint32_t member_;
  bool begun_ = false;
  std::uint64_t iteration_ = 0;
  std::optional<std::uint64_t> previous_;
  std::uint64_t decisions_before_ = 0;
  Time asked_since_ = kNever;
  /// Since when the device has stood; `kNever` while it runs.
  Time idle_since_{0};
  AgreementStatistics statistics_;
};

}  // namespace sluice::agree
