#include "hand_group.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::test {

HandGroup::HandGroup(agree::Form form, std::uint32_t members, Pipeline of)
    : pipeline(std::move(of)),
      channels(std::vector<Wake*>(members), agree::needs(form, tasks)),
      arbiters(members, Arbiter(tasks, Hint::named("bf", pipeline, 0))) {
  for (std::uint32_t member = 0; member < members; ++member)
    agreements.push_back(agree::make_agreement(form, tasks, channels.channel(member), clock));
}

HandGroup::HandGroup(const agree::ChannelNeeds& needs, std::uint32_t members, const Make& make, Pipeline of)
    : pipeline(std::move(of)),
      channels(std::vector<Wake*>(members), needs),
      arbiters(members, Arbiter(tasks, Hint::named("bf", pipeline, 0))),
      agreements(make(*this)) {}

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
  return poll_all(std::vector<PassMask>(members(), allowed), false);
}

std::vector<std::optional<Task>> HandGroup::poll_all(const std::vector<PassMask>& allowed, bool last_first) {
  constexpr int kRounds = 6;
  const Time until = host::SteadyClock().now() + std::chrono::seconds(60);
  std::vector<std::optional<Task>> decisions(members());
  for (int round = 0; round < kRounds; round = under_way() ? 0 : round + 1) {
    for (std::uint32_t turn = 0; turn < members(); ++turn) {
      const std::uint32_t member = last_first ? members() - 1 - turn : turn;
      if (!decisions[member]) decisions[member] = poll(member, allowed[member]);
    }
    if (host::SteadyClock().now() > until) throw StallError("what is under way does not end");
  }
  return decisions;
}

bool HandGroup::under_way() const {
  return std::any_of(agreements.begin(), agreements.end(),
                     [](const auto& each) { return each->next_deadline() == kAnyTime; });
}

}  // namespace sluice::test
