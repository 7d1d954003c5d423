#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/agree/group_agreement.hpp"
#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"

namespace sluice::host {

/// The channels of a group whose ranks are threads of one process: a lock-free ring from each member to each
/// other.
class InProcessGroup {
 public:
  /// @param wakes one a member, notified when a message is there; null where nobody sleeps. They outlive the
  ///        group
  /// @throws ConfigError naming `group` if it has no members
  InProcessGroup(const std::vector<Wake*>& wakes, const agree::ChannelNeeds& needs);
  ~InProcessGroup();
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;

  /// `send` throws Error naming the members if the message is longer than `needs.longest`, or the receiver
  /// has more than `needs.unread` to fetch.
  [[nodiscard]] agree::GroupChannel& channel(std::uint32_t member);

 private:
  class Ring;
  class Endpoint;

  /// By receiver, then sender.
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace sluice::host
