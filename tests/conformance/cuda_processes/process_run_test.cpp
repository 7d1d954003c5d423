#include "sluice/process/process_run.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/left_on_device.hpp"
#include "cuda/training_rank.hpp"
#include "forked_ranks.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/process/control_plane.hpp"

/// Runs of processes as a trainer makes them, with devices of their own behind `Workload::make_device`. The
/// process of the tests must not use CUDA itself.
namespace sluice::cuda {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kStages = 4;
constexpr int kFoundCause = 3;

/// What the processes leave, by rank.
struct Left {
  double weight[kStages];
  test::GraphUse graphs[kStages];
  std::uint32_t tasks_reported[kStages];
  std::size_t alive[kStages];
};

/// One process: the control plane, the device and its run.
class DeviceProcess {
 public:
  DeviceProcess(const test::DeviceTraining& training, process::Bootstrap& bootstrap,
                process::ControlOptions options = {})
      : training_(training),
        stage_(static_cast<StageId>(bootstrap.rank())),
        control_(bootstrap, std::move(options)),
        policy_(training.policy_of(stage_)),
        slots_(policy_.slots(training.pipeline, stage_, training.settings.limit, training.settings.rules)),
        buffers_(training.pipeline, stage_, slots_),
        device_(training, stage_, bootstrap.rank(), slots_),
        ranks_(kStages) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    transport_ =
        std::make_unique<IpcTransport>(IpcMember{training.pipeline, stage_, ranks_, device_.memory(), clock_},
                                       test::all_gather_of(bootstrap));
    host::Workload workload;
    workload.make_device = [this](std::uint32_t, StageId, std::uint32_t slots, Wake&) {
      return device_.make_executor(clock_, slots);
    };
    workload.after_iteration = [this](std::uint32_t, const Iteration& iteration) {
      if (iteration.kind == IterationKind::Training) device_.step();
    };
    run_ = std::make_unique<process::ProcessRun>(
        training.pipeline, policy_, std::move(workload), training.settings,
        process::ProcessParts{process::RankGrid{kStages}, control_, buffers_, *transport_, agreement_,
                              transport_->wake()});
  }

  /// @return tasks of all ranks, by the last report
  std::uint32_t run() {
    std::uint32_t tasks = 0;
    try {
      for (const Iteration& iteration : training_.iterations) {
        tasks = 0;
        for (const host::RankReport& rank : run_->run(iteration).ranks) tasks += rank.tasks;
      }
    } catch (...) {
      transport_->abandon();
      throw;
    }
    return tasks;
  }

  [[nodiscard]] test::TrainingStage& device() { return device_; }

 private:
  const test::DeviceTraining& training_;
  StageId stage_;
  process::ControlPlane control_;
  Policy policy_;
  std::uint32_t slots_;
  host::SlotBuffers buffers_;
  test::TrainingStage device_;
  std::vector<std::uint32_t> ranks_;
  host::SteadyClock clock_;
  SingleRank agreement_;
  std::unique_ptr<IpcTransport> transport_;
  std::unique_ptr<process::ProcessRun> run_;
};

test::DeviceTraining training_of(const Pipeline& pipeline, const std::string& hint,
                                 std::vector<Iteration> iterations) {
  test::DeviceTraining training(pipeline, std::move(iterations));
  training.policy_of = [&pipeline, hint](StageId stage) {
    return Policy::readiness(Hint::named(hint, pipeline, stage));
  };
  training.code_of = [](StageId) { return test::DeviceCode::Captured; };
  training.settings.limit = 4;
  training.settings.poll_interval = 20us;
  return training;
}

class DeviceProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(DeviceProcesses, TrainByCapturedGraphsWhatOneThreadDoes) {
  const std::string hint = GetParam();
  const Pipeline pipeline = Pipeline::chain(kStages, 8, hint == "bfw");
  const std::vector<Iteration> iterations{{0}, {1, IterationKind::ForwardOnly}, {2}, {3}};
  const test::DeviceTraining training = training_of(pipeline, hint, iterations);
  const test::SharedMapping shared(sizeof(Left));
  Left& left = *shared.as<Left>();
  test::ForkedRanks ranks(kStages, [&](process::Bootstrap& bootstrap) {
    use_device(0);
    const std::uint32_t own = bootstrap.rank();
    {
      DeviceProcess rank(training, bootstrap);
      left.tasks_reported[own] = rank.run();
      left.weight[own] = rank.device().weights().front();
      left.graphs[own] = rank.device().graph_use();
    }
    left.alive[own] = test::left_on_device();
    return fakecuda_take_reports != nullptr && fakecuda_take_reports() != 0 ? 1 : 0;
  });
  for (const test::Ending& ending : ranks.wait(100s)) EXPECT_EQ(ending.code, 0) << "signal " << ending.signal;
  const std::uint32_t passes = pipeline.split_backward() ? 3 : 2;
  for (std::uint32_t rank = 0; rank < kStages; ++rank) {
    EXPECT_GE(left.graphs[rank].fewest_nodes, 20U);
    EXPECT_EQ(left.graphs[rank].eager, 0U);
    EXPECT_EQ(left.tasks_reported[rank], kStages * pipeline.microbatches() * passes);
    EXPECT_EQ(left.alive[rank], 0U);
  }
  EXPECT_EQ(std::vector<double>(left.weight, left.weight + kStages),
            test::trained_by_one_thread(pipeline, iterations));
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceProcesses, ::testing::Values("bf", "fb", "bfw"),
                         [](const auto& tested) { return std::string(tested.param); });

/// A graph that cannot be launched on one rank ends the run on all, and all say which rank and task that was.
TEST(DeviceProcessFailure, AGraphThatIsNotLaunchedIsTheCauseThatEveryRankTells) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  const Pipeline pipeline = Pipeline::chain(kStages, 8);
  const test::DeviceTraining training = training_of(pipeline, "bf", {{0}, {1}});
  const test::SharedMapping shared(sizeof(Left));
  Left& left = *shared.as<Left>();
  test::ForkedRanks ranks(kStages, [&](process::Bootstrap& bootstrap) {
    use_device(0);
    const std::uint32_t own = bootstrap.rank();
    int code = 0;
    try {
      DeviceProcess rank(training, bootstrap);
      static_cast<void>(bootstrap.all_gather({}));
      if (own == 2) fakecuda_fail("cudaGraphLaunch", 5, cudaErrorLaunchOutOfResources);
      rank.run();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const bool found = text.find("launching the graph of ") != std::string::npos &&
                         text.find("cudaErrorLaunchOutOfResources") != std::string::npos &&
                         text.find("rank 2") != std::string::npos;
      code = found ? kFoundCause : 0;
      if (!found) std::fprintf(stderr, "rank %u: %s\n", own, text.c_str());
    }
    left.alive[own] = test::left_on_device();
    return code;
  });
  for (const test::Ending& ending : ranks.wait(100s))
    EXPECT_EQ(ending.code, kFoundCause) << "signal " << ending.signal;
  for (const std::size_t alive : left.alive) EXPECT_EQ(alive, 0U);
}

}  // namespace
}  // namespace sluice::cuda
