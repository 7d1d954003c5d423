#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/group_training.hpp"
#include "cuda/training_rank.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/rules.hpp"

namespace sluice::test {

/// A pipeline whose stages are groups.
struct GroupMethod {
  std::string name;
  Pipeline pipeline;
  std::string hint;
  std::uint32_t limit = 4;
  std::uint32_t depth = 2;
  Rules rules{};
};

inline std::vector<GroupMethod> group_methods() {
  Rules focus;
  focus.mixed_at_limit = false;
  const std::uint32_t encoders[] = {1, 1};
  return {{"Chain", Pipeline::chain(3, 6), "bf"},
          {"Split", Pipeline::chain(2, 6, true), "bfw", 3, 1},
          {"Paced", Pipeline::chain(2, 6, true), "pace"},
          {"FocusedAtTheLimit", Pipeline::interleaved(2, 2, 6), "bf", 2, 2, focus},
          {"TwoEncoders", Pipeline::joined(encoders, 1, 5), "b-priority"}};
}

/// Groups of two train to the last bit what one thread does on the host, both members the same, and have
/// counted the same.
/// @param bounded by the method's limit; otherwise by none
inline void expect_groups_train_alike(const GroupMethod& method, const GroupForm& form, bool bounded = true) {
  constexpr std::uint32_t kMembers = 2;
  const Pipeline& pipeline = method.pipeline;
  const std::vector<Iteration> iterations{{0}, {1}, {2}};
  DeviceTraining training(pipeline, iterations);
  training.policy_of = [&](StageId stage) {
    return Policy::readiness(Hint::named(method.hint, pipeline, stage));
  };
  training.settings.limit = bounded ? method.limit : pipeline.chunks() * pipeline.microbatches();
  training.settings.rules = method.rules;
  training.settings.poll_interval = std::chrono::microseconds(20);
  training.executor.depth = method.depth;
  const GroupTrained trained = GroupTraining(training, kMembers, form).run();
  const std::vector<double> expected = trained_by_one_thread(pipeline, iterations);
  for (const std::vector<double>& weights : trained.weights) EXPECT_EQ(weights, expected);
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const AgreementStatistics& first = trained.agreements[0][stage];
    const AgreementStatistics& second = trained.agreements[1][stage];
    EXPECT_GE(first.decisions, iterations.size() * 2 * StageTasks(pipeline, stage).size());
    EXPECT_EQ(first.attempts, first.decisions + first.deferrals);
    EXPECT_EQ(first.decisions, second.decisions);
    EXPECT_EQ(first.attempts, second.attempts);
    EXPECT_EQ(first.picks_differed, second.picks_differed);
  }
}

}  // namespace sluice::test
