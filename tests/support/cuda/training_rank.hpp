#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "arithmetic_stage.hpp"
#include "cuda/device_rank.hpp"
#include "cuda/training_stage.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/ipc_transport.hpp"
#include "sluice/error.hpp"
#include "sluice/host/rank_runner.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::test {

/// Every rank stops when one has failed, or when nobody gets on for long.
class SharedWatch final : public host::RunWatch {
 public:
  explicit SharedWatch(Duration patience = std::chrono::seconds(30)) : patience_(patience) {}

  [[nodiscard]] bool failed() const noexcept override { return failed_; }
  void progressed(Time at) noexcept override { last_ = at.count(); }
  void idle(Time now) override {
    if (now - Time(last_.load()) > patience_) throw StallError("no rank gets on");
  }
  void fail() noexcept { failed_ = true; }

 private:
  Duration patience_;
  std::atomic<bool> failed_{false};
  std::atomic<Time::rep> last_{host::SteadyClock().now().count()};
};

/// One rank: all that a thread or process needs to run its stage. Ranks and stages have the same numbers.
class TrainingRank {
 public:
  /// @param agreement with the other ranks of its group, and outlives the rank; null if it has none
  TrainingRank(const DeviceTraining& training, process::Bootstrap& bootstrap, SharedWatch& watch,
               Agreement* agreement = nullptr)
      : training_(training),
        stage_(static_cast<StageId>(bootstrap.rank())),
        watch_(watch),
        agreement_(agreement == nullptr ? alone_ : *agreement),
        policy_(training.policy_of(stage_)),
        slots_(
            policy_.slots(pipeline(), stage_, training.settings.limit_of(stage_), training.settings.rules)),
        buffers_(pipeline(), stage_, slots_),
        device_(training, stage_, bootstrap.rank(), slots_),
        ranks_(pipeline().stages()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    transport_ = std::make_unique<cuda::IpcTransport>(
        cuda::IpcMember{pipeline(), stage_, ranks_, device_.memory(), clock_}, all_gather_of(bootstrap));
    make_runner(bootstrap.rank());
  }

  void run() {
    try {
      for (const Iteration& iteration : training_.iterations) runner_->run(iteration);
    } catch (...) {
      watch_.fail();
      transport_->abandon();
      throw;
    }
  }

  [[nodiscard]] const cuda::CudaExecutor& executor() const { return *executor_; }
  [[nodiscard]] Waiting waiting() const { return runner_->waiting(); }
  [[nodiscard]] Wake& wake() { return transport_->wake(); }
  /// By chunk of the stage.
  [[nodiscard]] std::vector<double> weights() const { return device_.weights(); }
  [[nodiscard]] GraphUse graph_use() const { return device_.graph_use(); }

 private:
  [[nodiscard]] const Pipeline& pipeline() const { return training_.pipeline; }

  void make_runner(std::uint32_t rank) {
    workload_.make_device = [this](std::uint32_t, StageId, std::uint32_t slots, Wake&) {
      auto executor = device_.make_executor(clock_, slots);
      executor_ = executor.get();
      return executor;
    };
    workload_.after_iteration = [this](std::uint32_t, const Iteration& iteration) {
      if (iteration.kind == IterationKind::Training) device_.step();
    };
    runner_ = std::make_unique<host::RankRunner>(
        pipeline(), workload_, training_.settings, std::move(policy_),
        host::RankParts{rank, stage_, buffers_, *transport_, agreement_, transport_->wake(), watch_});
  }

  const DeviceTraining& training_;
  StageId stage_;
  SharedWatch& watch_;
  SingleRank alone_;
  Agreement& agreement_;
  Policy policy_;
  std::uint32_t slots_;
  host::SlotBuffers buffers_;
  TrainingStage device_;
  /// Of each stage.
  std::vector<std::uint32_t> ranks_;
  host::SteadyClock clock_;
  std::unique_ptr<cuda::IpcTransport> transport_;
  host::Workload workload_;
  /// The runner's.
  const cuda::CudaExecutor* executor_ = nullptr;
  std::unique_ptr<host::RankRunner> runner_;
};

/// What training with each rank a thread leaves.
struct Trained {
  /// By chunk.
  std::vector<double> weights;
  /// By stage.
  std::vector<GraphUse> graphs;
};

inline Trained train_by_threads(const DeviceTraining& training) {
  const Pipeline& pipeline = training.pipeline;
  SharedWatch watch;
  Trained trained{std::vector<double>(pipeline.chunks()), std::vector<GraphUse>(pipeline.stages())};
  on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const auto stage = static_cast<StageId>(bootstrap.rank());
    TrainingRank rank(training, bootstrap, watch);
    rank.run();
    const std::vector<double> own = rank.weights();
    const auto chunks = pipeline.chunks_of(stage);
    for (std::size_t i = 0; i < chunks.size(); ++i) trained.weights[chunks[i]] = own[i];
    trained.graphs[stage] = rank.graph_use();
  });
  return trained;
}

/// The weights after training with each rank a thread.
inline std::vector<double> trained_by_threads(const DeviceTraining& training) {
  return train_by_threads(training).weights;
}

/// What one thread of the host makes of the weights.
inline std::vector<double> trained_by_one_thread(const Pipeline& pipeline,
                                                 const std::vector<Iteration>& iterations) {
  ArithmeticStages stages = make_stages(pipeline);
  for (const Iteration& iteration : iterations) {
    run_sequentially(pipeline, iteration, stages);
    if (iteration.kind == IterationKind::ForwardOnly) continue;
    for (const auto& stage : stages) stage->step();
  }
  return weights(stages);
}

}  // namespace sluice::test
