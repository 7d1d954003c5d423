#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/training_rank.hpp"
#include "sluice/waiting.hpp"

/// Whole pipelines on a device where something goes wrong on one rank.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

using Step = std::function<void(test::TrainingRank&, std::uint32_t rank)>;

/// Each rank's error, with what it waits for.
std::vector<std::string> errors_of(const Step& before, const Step& after, Duration patience) {
  const Pipeline pipeline = Pipeline::chain(4, 8);
  test::DeviceTraining training(pipeline, {{0}, {1}});
  training.policy_of = [&](StageId stage) { return Policy::readiness(Hint::named("bf", pipeline, stage)); };
  training.settings.limit = 4;
  training.settings.poll_interval = 20us;
  test::SharedWatch watch(patience);
  std::vector<std::string> errors(pipeline.stages(), "none");
  test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    use_device(0);
    test::TrainingRank rank(training, bootstrap, watch);
    before(rank, bootstrap.rank());
    // Nothing runs before all are ready.
    static_cast<void>(bootstrap.all_gather({}));
    try {
      rank.run();
    } catch (const std::exception& error) {
      errors[bootstrap.rank()] = error.what() + ("\n" + to_string(rank.waiting()));
    }
    after(rank, bootstrap.rank());
  });
  return errors;
}

TEST(CudaPipelineFailure, AKernelThatIsNotLaunchedEndsTheRunOnEveryRank) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  const auto plan = [](test::TrainingRank&, std::uint32_t rank) {
    if (rank == 0) fakecuda_fail("cudaLaunchKernelExC", 100, cudaErrorLaunchOutOfResources);
  };
  const std::vector<std::string> errors = errors_of(
      plan, [](auto&&...) {}, 30s);
  int causes = 0;
  for (std::uint32_t rank = 0; rank < errors.size(); ++rank) {
    const std::string prefix = "rank " + std::to_string(rank) + ", ";
    const bool cause = errors[rank].find("cudaErrorLaunchOutOfResources") != std::string::npos;
    causes += cause ? 1 : 0;
    EXPECT_TRUE(!cause || errors[rank].rfind(prefix, 0) == 0) << errors[rank];
    EXPECT_NE(errors[rank], "none");
  }
  EXPECT_EQ(causes, 1);
}

TEST(CudaPipelineFailure, AStreamThatHangsIsFoundOutAndNamed) {
  if (fakecuda_hang == nullptr) GTEST_SKIP() << "needs the fake device";
  const auto hang = [](test::TrainingRank& stage, std::uint32_t rank) {
    if (rank == 1) fakecuda_hang(stage.executor().stream(Lane::Compute));
  };
  const auto resume = [](test::TrainingRank& stage, std::uint32_t rank) {
    if (rank == 1) fakecuda_resume(stage.executor().stream(Lane::Compute));
  };
  const std::vector<std::string> errors = errors_of(hang, resume, 200ms);
  int stalls = 0;
  for (const std::string& error : errors) {
    stalls += error.find("no rank gets on") != std::string::npos ? 1 : 0;
    EXPECT_NE(error, "none");
  }
  EXPECT_GE(stalls, 1);
  EXPECT_THAT(errors[1], ::testing::HasSubstr("launched and not ended: 2, the last of them F(chunk 1"));
}

}  // namespace
}  // namespace sluice::cuda
