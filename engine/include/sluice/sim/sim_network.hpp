#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/sim/timetable.hpp"
#include "sluice/transport.hpp"

namespace sluice::sim {

/// A message that leaves for another stage.
struct Transit {
  MessageId id;
  StageId receiver = 0;
  /// Rank of its group: the ranks of a stage see different arrivals.
  std::uint32_t member = 0;
  /// Running average of the receiving rank's compute times, for the jitter levels j1 to j3.
  Duration compute_average{0};
};

/// How long after it was sent a message is noticed by its receiver.
using MessageDelay = std::function<Duration(const Transit&)>;

/// Carries offers between the stages of one pipeline in virtual time, from each rank of a group to the
/// same rank of the next stage's. A message accepted has arrived.
class SimNetwork {
 public:
  /// Ranks are numbered `stage * members + member` in the timetable.
  SimNetwork(const Pipeline& pipeline, const Clock& clock, Timetable& timetable, MessageDelay delay,
             std::uint32_t members = 1);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  [[nodiscard]] Transport& endpoint(StageId stage, std::uint32_t member = 0);

 private:
  class Endpoint;

  MessageDelay delay_;
  std::uint32_t members_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace sluice::sim
