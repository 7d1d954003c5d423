#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sluice/nvtx/domain.hpp"
#include "sluice/observer.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::nvtx {

/// What a rank is called in a timeline.
struct RankNames {
  /// Of the thread that drives the rank: `rank 3, stage 1`.
  std::string thread;
  /// What the iterations are of, such as a method; may be empty.
  std::string method;
};

/// Annotates what one rank does, on any device and transport:
/// - a start/end range a task, from its launch to when the rank notices its end: message `F chunk 2`,
/// category
///   of the pass, `Payload`
/// - a push/pop range an iteration on the rank's thread (`iteration`, or `iteration bfw`), whose payload is
/// its
///   index; in it, one for each stretch in which the rank waits: `wait: message`, with the word of `WaitFor`
/// - a mark for each arrival (`activation edge 1`, `Payload`) and each decision (`decide F`,
/// `DecisionPayload`)
///
/// Strings are registered here, so that the calls themselves allocate nothing on this side of NVTX.
/// @param domain, pipeline outlive the observer
[[nodiscard]] std::unique_ptr<Observer> annotate_rank(const Domain& domain, const Pipeline& pipeline,
                                                      StageId stage, const RankNames& names);

}  // namespace sluice::nvtx
