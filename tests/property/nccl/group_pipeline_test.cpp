#include <gtest/gtest.h>

#include <memory>

#include "../../fake_cuda/controls.hpp"
#include "cuda/group_pipelines.hpp"
#include "nccl/nccl_group.hpp"

/// Whole pipelines on devices whose stages are groups that agree on the device.
namespace sluice::test {
namespace {

struct GroupEnd {
  std::unique_ptr<nccl::Communicator> communicator;
  std::unique_ptr<nccl::NcclAgreement> agreement;
};

GroupForm over_nccl() {
  return {[](const StageTasks&) { return nccl::NcclAgreement::needs(); },
          [](const StageTasks& tasks, agree::GroupChannel& channel, const Clock& clock,
             process::Bootstrap& group) -> std::shared_ptr<Agreement> {
            auto end = std::make_shared<GroupEnd>();
            end->communicator =
                join_communicator(group, "the group of stage " + std::to_string(tasks.stage()));
            end->agreement = std::make_unique<nccl::NcclAgreement>(tasks, channel, clock, *end->communicator);
            return {end, end->agreement.get()};
          }};
}

class NcclGroupPipeline : public ::testing::TestWithParam<GroupMethod> {
 protected:
  void TearDown() override {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
  }
};

TEST_P(NcclGroupPipeline, TrainsWhatOneThreadDoes) { expect_groups_train_alike(GetParam(), over_nccl()); }

TEST_P(NcclGroupPipeline, AlsoWhereTheDeviceIsHeldUpAtRandom) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_delay_us(100);
  expect_groups_train_alike(GetParam(), over_nccl());
}

INSTANTIATE_TEST_SUITE_P(Of, NcclGroupPipeline, ::testing::ValuesIn(group_methods()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace sluice::test
