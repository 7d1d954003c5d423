#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/sim/timetable.hpp"
#include "sluice/transport.hpp"

namespace sluice::sim {

/// How long after it was sent a message is noticed by its receiver.
using MessageDelay = std::function<Duration(const MessageId&)>;

/// Carries offers between the stages of one pipeline in virtual time. A message accepted has arrived.
class SimNetwork {
 public:
  SimNetwork(const Pipeline& pipeline, const Clock& clock, Timetable& timetable, MessageDelay delay);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  [[nodiscard]] Transport& endpoint(StageId stage);

 private:
  class Endpoint;

  MessageDelay delay_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace sluice::sim
