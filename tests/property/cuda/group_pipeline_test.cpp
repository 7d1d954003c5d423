#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>

#include "../../fake_cuda/controls.hpp"
#include "cuda/group_pipelines.hpp"
#include "sluice/agree/form.hpp"

/// Whole pipelines on devices whose stages are groups that agree over messages.
namespace sluice::test {
namespace {

using agree::Form;

GroupForm over_messages(Form form) {
  return {[form](const StageTasks& tasks) { return agree::needs(form, tasks); },
          [form](const StageTasks& tasks, agree::GroupChannel& channel, const Clock& clock,
                 process::Bootstrap&) -> std::shared_ptr<Agreement> {
            return agree::make_agreement(form, tasks, channel, clock);
          }};
}

class GroupPipeline : public ::testing::TestWithParam<std::tuple<GroupMethod, Form>> {
 protected:
  void TearDown() override {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
  }
  /// First picks can differ for ever where the limit keeps some out.
  static void check() {
    const auto& [method, form] = GetParam();
    expect_groups_train_alike(method, over_messages(form), form != Form::FirstPick);
  }
};

TEST_P(GroupPipeline, TrainsWhatOneThreadDoes) { check(); }

TEST_P(GroupPipeline, AlsoWhereTheDeviceIsHeldUpAtRandom) {
  if (fakecuda_delay_us == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_delay_us(100);
  check();
}

INSTANTIATE_TEST_SUITE_P(Of, GroupPipeline,
                         ::testing::Combine(::testing::ValuesIn(group_methods()),
                                            ::testing::ValuesIn(agree::kForms)),
                         [](const auto& tested) {
                           std::string form(agree::name(std::get<1>(tested.param)));
                           std::replace(form.begin(), form.end(), '-', '_');
                           return std::get<0>(tested.param).name + "_" + form;
                         });

}  // namespace
}  // namespace sluice::test
