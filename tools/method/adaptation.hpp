#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "method/method.hpp"
#include "sluice/recorder.hpp"
#include "sluice/sim/auto_hint.hpp"
#include "sluice/sim/measurements.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::tools {

/// What a method that adapts needs in a simulated world: recorders of its own, and what it learns from them.
class Adaptation {
 public:
  /// @param setups of the method's stages, which get the recorders
  Adaptation(const Method& method, std::uint32_t depth, sim::GroupSettings group,
             std::vector<sim::StageSetup>& setups);

  /// Between iterations: takes in the last one, and ranks anew if it has to.
  void update(sim::World& world);

  /// The hints as they are now, for another world of the same pipeline.
  void rank(sim::World& world) const;

 private:
  std::vector<std::unique_ptr<Recorder>> recorders_;
  sim::Measurements measured_;
  sim::AutoHint hint_;
};

}  // namespace sluice::tools
