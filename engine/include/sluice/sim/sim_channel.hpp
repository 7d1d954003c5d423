#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::sim {

/// What a message between two members of a group takes; asked once a message, when it is sent.
using HopDelay = std::function<Duration(std::uint32_t from, std::uint32_t to)>;

/// The channels of one group in simulated time. A message overtakes none of the same two members.
class SimChannels {
 public:
  /// @param first_rank number of the group's first rank in the timetable; the others follow
  /// @param clock,timetable outlive the channels
  SimChannels(std::uint32_t members, std::uint32_t first_rank, const Clock& clock, Timetable& timetable,
              HopDelay delay);
  ~SimChannels();
  SimChannels(const SimChannels&) = delete;
  SimChannels& operator=(const SimChannels&) = delete;

  [[nodiscard]] agree::GroupChannel& channel(std::uint32_t member);
  /// Messages sent so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  class Endpoint;

  std::uint32_t first_rank_;
  const Clock& clock_;
  Timetable& timetable_;
  HopDelay delay_;
  std::uint64_t sent_ = 0;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace sluice::sim
