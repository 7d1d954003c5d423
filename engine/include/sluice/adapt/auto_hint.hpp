#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/adapt/measurements.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/hint.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::adapt {

/// Finds, between iterations, the hint that suits what was measured.
///
/// Candidates are the named hints with every backward split, variants that run weight gradients early, the
/// orders of the schedules that fit the pipeline, and an order by critical path from the measured averages.
/// They are tried in the simulator on times drawn from the newest ones, and the fastest is kept. All that
/// goes in is the same for every rank of a group and every replica, so all hold the same hints.
class AutoHint {
 public:
  /// @param pipeline with split backwards; outlives this
  /// @param configs as the stages' dispatchers have them
  AutoHint(const Pipeline& pipeline, std::vector<DispatcherConfig> configs, std::uint32_t depth = 1,
           sim::GroupSettings group = {});

  /// Hints by stage; BFW's until something is known.
  [[nodiscard]] const std::vector<Hint>& hints() const noexcept { return hints_; }
  /// Name of the candidate they come from.
  [[nodiscard]] const std::string& chosen() const noexcept { return chosen_; }

  /// Ranks anew if the measurements are complete and differ from those of the last time.
  /// @return whether the hints are others now
  bool update(const Measurements& measured);

 private:
  struct Candidate {
    std::string name;
    std::vector<Hint> hints;
  };

  void collect_candidates();
  [[nodiscard]] Candidate by_critical_path() const;
  [[nodiscard]] sim::Surroundings measured_surroundings() const;
  [[nodiscard]] const Candidate& fastest(sim::World& world) const;

  const Pipeline& pipeline_;
  std::vector<DispatcherConfig> configs_;
  std::uint32_t depth_;
  sim::GroupSettings group_;
  std::vector<Candidate> candidates_;
  std::vector<Hint> hints_;
  std::string chosen_;
  std::optional<Measurements> last_;
};

}  // namespace sluice::adapt
