#include "hand_group.hpp"

#include <algorithm>
#include <utility>

namespace sluice::test {

HandGroup::HandGroup(agree::Form form, std::uint32_t members, Pipeline of)
    : pipeline(std::move(of)), channels(std::vector<Wake*>(members), agree::needs(form, tasks)) {
  for (std::uint32_t member = 0; member < members; ++member) {
    arbiters.emplace_back(tasks, Hint::named("bf", pipeline, 0));
    agreements.push_back(agree::make_agreement(form, tasks, channels.channel(member), clock));
  }
}

void HandGroup::begin(std::uint32_t member, std::uint64_t iteration) {
  arbiters[member].begin();
  agreements[member]->begin({iteration, IterationKind::Training}, arbiters[member]);
}

void HandGroup::begin(std::uint64_t iteration) {
  for (std::uint32_t member = 0; member < members(); ++member) begin(member, iteration);
}

void HandGroup::runnable(std::uint32_t member, const Task& task, bool is) {
  is ? arbiters[member].insert(task) : arbiters[member].erase(task);
  const RunnableChange change{task, is};
  agreements[member]->announce({&change, 1});
}

void HandGroup::runnable(const Task& task) {
  for (std::uint32_t member = 0; member < members(); ++member) runnable(member, task);
}

std::optional<Task> HandGroup::poll(std::uint32_t member, PassMask allowed) {
  const auto task = agreements[member]->poll(arbiters[member], allowed);
  if (task) arbiters[member].decided(*task);
  return task;
}

std::vector<std::optional<Task>> HandGroup::poll_all(PassMask allowed) {
  constexpr int kRounds = 6;
  std::vector<std::optional<Task>> decisions(members());
  for (int round = 0; round < kRounds; ++round) {
    for (std::uint32_t member = 0; member < members(); ++member) {
      if (!decisions[member]) decisions[member] = poll(member, allowed);
    }
  }
  return decisions;
}

}  // namespace sluice::test
