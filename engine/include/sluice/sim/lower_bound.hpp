#pragma once

#include <functional>

#include "sluice/clock.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/task.hpp"
#include "sluice/transport.hpp"

namespace sluice::sim {

/// What is known of an iteration before any method orders it.
struct Realized {
  /// @param whole for a backward: the weight gradient is part of it
  std::function<Duration(const Task& task, bool whole)> task_time;
  /// From the end of the sending task to the message being there; asked for edges between stages.
  std::function<Duration(const MessageId& message)> message_delay;
  std::uint64_t iteration = 0;
  /// From the end of a task to its messages leaving, also to a chunk of the same stage.
  Duration notice{0};
};

/// A time that no schedule can beat, split or not: stages run one task at a time, and every task waits for
/// its inputs. The largest of, for every stage,
/// - the earliest a forward can reach it, plus all its forwards and backwards;
/// - the same with input gradients in place of whole backwards, plus the shortest way of gradients from
///   the stage back to the sources and the weight gradient there;
/// and, for every microbatch, its longest chain of forwards and input gradients with the last weight
/// gradient. On a chain of one chunk a stage without message times the second term on the last stage is at
/// least the L of arXiv 2605.18750, section on bounds, where backwards are not split.
[[nodiscard]] Duration lower_bound(const Pipeline& pipeline, const Realized& realized);

}  // namespace sluice::sim
