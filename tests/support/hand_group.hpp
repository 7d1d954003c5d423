#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sluice/agree/form.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::test {

/// The ranks of one group by hand: an arbiter and an agreement each, over in-process channels, with a clock
/// that stands unless it is moved.
class HandGroup {
 public:
  static constexpr Microbatch kMicrobatches = 8;

  /// Makes the members' agreements, over the group's channels and clock.
  using Make = std::function<std::vector<std::unique_ptr<Agreement>>(HandGroup&)>;

  HandGroup(agree::Form form, std::uint32_t members, Pipeline of = Pipeline::chain(2, kMicrobatches, true));
  HandGroup(const agree::ChannelNeeds& needs, std::uint32_t members, const Make& make,
            Pipeline of = Pipeline::chain(2, kMicrobatches, true));

  [[nodiscard]] std::uint32_t members() const { return static_cast<std::uint32_t>(agreements.size()); }
  /// One rank begins an iteration, or all.
  void begin(std::uint32_t member, std::uint64_t iteration);
  void begin(std::uint64_t iteration = 0);
  void runnable(std::uint32_t member, const Task& task, bool is = true);
  void runnable(const Task& task);

  /// What a decision gives is launched: it leaves the rank's arbiter.
  std::optional<Task> poll(std::uint32_t member, PassMask allowed = kAllPasses);
  /// Polls all ranks in turn until each has a decision, or none comes in a few rounds after what is under way
  /// has ended.
  /// @return by member
  std::vector<std::optional<Task>> poll_all(PassMask allowed = kAllPasses);
  /// @param allowed by member
  std::vector<std::optional<Task>> poll_all(const std::vector<PassMask>& allowed, bool last_first);
  /// A member waits for something that nobody tells of.
  [[nodiscard]] bool under_way() const;

  Pipeline pipeline;
  StageTasks tasks{pipeline, 0};
  sim::VirtualClock clock;
  host::InProcessGroup channels;
  std::vector<Arbiter> arbiters;
  std::vector<std::unique_ptr<Agreement>> agreements;
};

}  // namespace sluice::test
