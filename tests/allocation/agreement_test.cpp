#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "counting_allocator.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/sim/timetable.hpp"

/// Agreeing allocates nothing once an iteration has begun.
namespace sluice {
namespace {

using agree::Form;

class AgreementHotPath : public testing::TestWithParam<Form> {};

INSTANTIATE_TEST_SUITE_P(Forms, AgreementHotPath, testing::ValuesIn(agree::kForms), [](const auto& form) {
  return form.param == Form::Leader ? "Leader" : form.param == Form::Bitmap ? "Bitmap" : "FirstPick";
});

TEST_P(AgreementHotPath, AllocatesNothing) {
  constexpr std::uint32_t kMembers = 3;
  const Pipeline pipeline = Pipeline::interleaved(2, 2, 100, true);
  const StageTasks tasks(pipeline, 0);
  const sim::VirtualClock clock;
  host::InProcessGroup channels(std::vector<Wake*>(kMembers), agree::needs(GetParam(), tasks));
  std::vector<Arbiter> arbiters(kMembers, Arbiter(tasks, Hint::named("bfw", pipeline, 0)));
  std::vector<std::unique_ptr<Agreement>> agreements;
  for (std::uint32_t member = 0; member < kMembers; ++member) {
    agreements.push_back(agree::make_agreement(GetParam(), tasks, channels.channel(member), clock));
    agreements[member]->begin({}, arbiters[member]);
  }
  std::vector<RunnableChange> changes;
  for (std::uint32_t index = 0; index < tasks.size(); ++index) {
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
      changes.push_back({tasks.task(pass, index), true});
  }
  std::uint64_t decided = 0;
  const test::CountedAllocations counted;
  for (std::uint32_t round = 0; round < 10 * changes.size(); ++round) {
    for (std::uint32_t member = 0; member < kMembers; ++member) {
      if (round < changes.size()) {
        arbiters[member].insert(changes[round].task);
        agreements[member]->announce({&changes[round], 1});
      }
      const auto task = agreements[member]->poll(arbiters[member], kAllPasses);
      if (!task) continue;
      arbiters[member].decided(*task);
      ++decided;
    }
  }
  EXPECT_EQ(counted.count(), 0U);
  EXPECT_EQ(decided, kMembers * changes.size());
}

}  // namespace
}  // namespace sluice
