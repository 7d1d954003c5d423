#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/agree/common_tasks.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/agreement.hpp"
#include "sluice/sim/sim_channel.hpp"
#include "sluice/sim/sim_executor.hpp"
#include "sluice/sim/timetable.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::sim {

/// The runtime's own agreement of one group, over channels in simulated time, and an onlooker who knows
/// what every rank knows. All ranks are in one iteration: the first one's `begin` begins it for all.
class MessageGroup {
 public:
  /// @param first_rank number of the group's first rank in the timetable; the others follow
  /// @param device of the group; it, the clock and the timetable outlive the group
  MessageGroup(const StageTasks& tasks, std::uint32_t members, agree::Form form, HopDelay delay,
               std::uint32_t first_rank, const Clock& clock, Timetable& timetable, const SimDevice& device);
  ~MessageGroup();
  MessageGroup(const MessageGroup&) = delete;
  MessageGroup& operator=(const MessageGroup&) = delete;

  [[nodiscard]] Agreement& endpoint(std::uint32_t member);

  /// Time since the first member began an iteration in which the device stood, every rank had asked, they
  /// had an allowed task in common, and not all knew the decision.
  [[nodiscard]] Duration agreeing() const noexcept { return agreeing_; }
  /// Of a member, since then.
  [[nodiscard]] AgreementStatistics statistics(std::uint32_t member = 0) const;

 private:
  class Endpoint;

  void begin(const Arbiter& arbiter);
  void asked(std::uint32_t member, const agree::Ask& ask);
  void took(std::uint32_t member, const Task& task);

  const Clock& clock_;
  const SimDevice& device_;
  SimChannels channels_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  agree::CommonTasks common_;
  std::vector<agree::Ask> asks_;
  /// By member: what it had counted when the iteration began.
  std::vector<AgreementStatistics> before_;
  /// Members that have the last decision.
  std::uint32_t takers_ = 0;
  /// Since when the group could have run something.
  Time stands_from_ = kNever;
  Duration agreeing_{0};
};

}  // namespace sluice::sim
