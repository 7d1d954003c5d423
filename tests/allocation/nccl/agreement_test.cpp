#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "../../../engine/src/nccl/group_windows.hpp"
#include "../../../engine/src/nccl/hint_order.hpp"
#include "../counting_allocator.hpp"
#include "nccl/nccl_group.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/pipeline.hpp"

/// Agreeing on the device allocates nothing once an iteration has begun. What the runtime and NCCL do to put
/// a reduction on a stream is left out.
namespace sluice {
namespace {

constexpr std::uint32_t kMembers = 2;

/// Everything that a stage has to run.
std::vector<Task> all_tasks(const StageTasks& tasks) {
  std::vector<Task> all;
  for (std::uint32_t index = 0; index < tasks.size(); ++index) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
      all.push_back(tasks.task(pass, index));
  }
  return all;
}

TEST(NcclAgreementHotPath, PollsThatEnqueueNothingAllocateNothing) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 20, true);
  const StageTasks tasks(pipeline, 0);
  const host::SteadyClock clock;
  test::GroupCommunicators communicators(kMembers);
  host::InProcessGroup channels(std::vector<Wake*>(kMembers), nccl::NcclAgreement::needs());
  const auto agreements = test::make_nccl_agreements(tasks, channels, clock, communicators);
  std::vector<Arbiter> arbiters(kMembers, Arbiter(tasks, Hint::named("bfw", pipeline, 0)));
  for (std::uint32_t member = 0; member < kMembers; ++member) agreements[member]->begin({}, arbiters[member]);
  const std::vector<Task> all = all_tasks(tasks);
  const Time until = clock.now() + std::chrono::seconds(60);
  std::uint64_t allocated = 0;
  std::uint64_t counted = 0;
  std::uint64_t decided = 0;
  for (std::size_t round = 0; decided < kMembers * all.size() && clock.now() < until; ++round) {
    for (std::uint32_t member = 0; member < kMembers; ++member) {
      Agreement& agreement = *agreements[member];
      const bool under_way = agreement.next_deadline() == kAnyTime;
      std::optional<Task> task;
      std::uint64_t allocations = 0;
      {
        const test::CountedAllocations count;
        if (round < all.size()) {
          const RunnableChange change{all[round], true};
          arbiters[member].insert(change.task);
          agreement.announce({&change, 1});
        }
        task = agreement.poll(arbiters[member], kAllPasses);
        if (task) arbiters[member].decided(*task);
        allocations = count.count();
      }
      decided += task ? 1 : 0;
      const bool enqueued = !under_way && (task || agreement.next_deadline() == kAnyTime);
      if (enqueued) continue;
      allocated += allocations;
      ++counted;
    }
  }
  EXPECT_EQ(allocated, 0U);
  EXPECT_EQ(decided, kMembers * all.size());
  EXPECT_GT(counted, all.size());
}

/// What is done on the host to enqueue a reduction, and with its outcome.
TEST(NcclAgreementHotPath, WindowsAllocateNothing) {
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 100, true);
  const StageTasks tasks(pipeline, 0);
  Arbiter arbiter(tasks, Hint::named("bfw", pipeline, 0));
  nccl::HintOrder order(tasks);
  order.begin(arbiter.hint());
  nccl::GroupWindows windows;
  std::vector<std::uint8_t> bytes(kPasses * std::size_t{tasks.size()});
  const std::vector<Task> all = all_tasks(tasks);
  std::uint64_t decided = 0;
  const test::CountedAllocations count;
  for (const Task& task : all) order.set(task, true);
  while (true) {
    windows.look(arbiter, kAllPasses, order, nccl::overlap(order.ranges(), order.ranges()));
    windows.gather(order, order.bytes(), bytes);
    const auto firsts = nccl::kernels::firsts_of_share(bytes.data(), windows.windows(), 0, 1);
    const std::optional<Task> task = windows.choose(arbiter, firsts);
    if (!task) break;
    arbiter.decided(*task);
    order.decided(*task);
    ++decided;
  }
  EXPECT_EQ(count.count(), 0U);
  EXPECT_EQ(decided, all.size());
}

}  // namespace
}  // namespace sluice
