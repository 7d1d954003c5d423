#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "method/method.hpp"
#include "sluice/adapt/auto_hint.hpp"
#include "sluice/adapt/measurements.hpp"
#include "sluice/recorder.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::tools {

/// What a method that adapts needs in a simulated world: recorders, and what it learns from them.
class Adaptation {
 public:
  /// @param setups of the method's stages; those without a recorder get one
  Adaptation(const Method& method, std::uint32_t depth, sim::GroupSettings group,
             std::vector<sim::StageSetup>& setups);

  /// Between iterations: takes in the last one, and ranks anew if it has to. Clears the recorders.
  void update(sim::World& world);

  /// The hints as they are now, for another world of the same pipeline.
  void rank(sim::World& world) const;

 private:
  std::vector<std::unique_ptr<Recorder>> own_;
  /// One a stage.
  std::vector<Recorder*> recorders_;
  adapt::Measurements measured_;
  adapt::AutoHint hint_;
};

}  // namespace sluice::tools
