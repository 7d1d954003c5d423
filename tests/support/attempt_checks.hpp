#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "hand_group.hpp"
#include "scenario.hpp"
#include "sluice/arbiter.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::test {

/// What one member may run, and what it has room for.
struct Snapshot {
  std::set<Task> runnable;
  PassMask allowed = kAllPasses;
};

inline std::vector<Snapshot> draw_snapshots(const Draw& draw, const StageTasks& tasks,
                                            std::uint32_t members) {
  std::vector<Snapshot> snapshots(members);
  const std::uint32_t density = draw(1, 9);
  for (Snapshot& snapshot : snapshots) {
    for (std::uint32_t at = 0; at < tasks.size() * kPasses; ++at) {
      if (draw(0, 9) < density)
        snapshot.runnable.insert(tasks.task(static_cast<Pass>(at / tasks.size()), at % tasks.size()));
    }
    if (draw(0, 1) == 1) snapshot.allowed = static_cast<PassMask>(draw(1, kAllPasses));
  }
  return snapshots;
}

inline bool share_an_allowed_task(const std::vector<Snapshot>& snapshots) {
  return std::any_of(snapshots[0].runnable.begin(), snapshots[0].runnable.end(), [&](const Task& task) {
    return std::all_of(snapshots.begin(), snapshots.end(), [&](const Snapshot& each) {
      return each.runnable.contains(task) && (each.allowed & mask_of(task.pass)) != 0;
    });
  });
}

using MakeHandGroup = std::function<std::unique_ptr<HandGroup>(std::uint32_t members)>;

/// What the members announce, so that each has the tasks of its snapshot.
inline void announce(HandGroup& group, std::vector<std::set<Task>>& announced,
                     const std::vector<Snapshot>& snapshots) {
  for (std::uint32_t member = 0; member < group.members(); ++member) {
    const std::set<Task>& now = snapshots[member].runnable;
    for (const Task& task : announced[member]) {
      if (!now.contains(task)) group.runnable(member, task, false);
    }
    for (const Task& task : now) {
      if (!announced[member].contains(task)) group.runnable(member, task);
    }
    announced[member] = now;
  }
}

/// Attempt by attempt: whatever the members have, an attempt decides if they share an allowed task, and only
/// then; all the same, one that all may run.
inline void check_attempts(const Draw& draw, const MakeHandGroup& make) {
  constexpr std::uint32_t kAttempts = 8;
  const std::unique_ptr<HandGroup> group = make(draw(1, 4));
  group->begin();
  std::vector<std::set<Task>> announced(group->members());
  std::set<Task> over;
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<Snapshot> snapshots = draw_snapshots(draw, group->tasks, group->members());
    std::vector<PassMask> allowed;
    for (Snapshot& snapshot : snapshots) {
      for (const Task& task : over) snapshot.runnable.erase(task);
      allowed.push_back(snapshot.allowed);
    }
    announce(*group, announced, snapshots);
    // The leader last: what a member has asked with before stands until it says otherwise.
    const std::vector<std::optional<Task>> decisions = group->poll_all(allowed, true);
    RC_ASSERT(decisions[0].has_value() == share_an_allowed_task(snapshots));
    for (std::uint32_t member = 0; member < group->members(); ++member) {
      RC_ASSERT(decisions[member] == decisions[0]);
      if (!decisions[0]) continue;
      RC_ASSERT(snapshots[member].runnable.contains(*decisions[0]));
      RC_ASSERT((snapshots[member].allowed & mask_of(decisions[0]->pass)) != 0);
      announced[member].erase(*decisions[0]);
    }
    if (decisions[0]) over.insert(*decisions[0]);
  }
}

}  // namespace sluice::test
