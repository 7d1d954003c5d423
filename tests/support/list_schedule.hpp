#pragma once

#include <functional>
#include <map>

#include "sluice/schedule.hpp"
#include "sluice/transport.hpp"

namespace sluice::test {

/// When a task ran.
struct Interval {
  Time started{};
  Time ended{};

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// What a schedule costs, by plain list scheduling: each stage runs its order one task at a time, and a
/// task starts once the one before it has ended and its inputs have come over. Knows no dispatcher.
/// @param message_delay of messages between stages; within a stage there is none
/// @throws std::logic_error if the orders deadlock
[[nodiscard]] std::map<Task, Interval> list_schedule(
    const Pipeline& pipeline, const Schedule& schedule, const std::function<Duration(const Task&)>& task_time,
    const std::function<Duration(const MessageId&)>& message_delay);

}  // namespace sluice::test
