#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "arithmetic_stage.hpp"
#include "cuda/device_arithmetic_stage.hpp"
#include "cuda/device_rank.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/eager_code.hpp"
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

/// How the ranks of a pipeline train arithmetic on devices.
struct DeviceTraining {
  DeviceTraining(const Pipeline& run, std::vector<Iteration> order)
      : pipeline(run), iterations(std::move(order)) {}

  const Pipeline& pipeline;
  std::vector<Iteration> iterations;
  std::function<Policy(StageId)> policy_of;
  host::RunSettings settings;
  cuda::CudaExecutor::Options executor;
};

/// One rank: all that a thread or process needs to run its stage. Ranks and stages have the same numbers.
class TrainingRank {
 public:
  TrainingRank(const DeviceTraining& training, process::Bootstrap& bootstrap, SharedWatch& watch)
      : training_(training),
        stage_(static_cast<StageId>(bootstrap.rank())),
        watch_(watch),
        policy_(training.policy_of(stage_)),
        slots_(
            policy_.slots(pipeline(), stage_, training.settings.limit_of(stage_), training.settings.rules)),
        buffers_(pipeline(), stage_, slots_),
        ranks_(pipeline().stages()) {
    std::vector<cuda::Stage*> code;
    std::vector<cuda::ChunkMemory> chunks;
    for (const Chunk chunk : pipeline().chunks_of(stage_)) {
      stages_.push_back(std::make_unique<DeviceArithmeticStage>(pipeline(), chunk));
      code.push_back(stages_.back().get());
      chunks.push_back(stages_.back()->memory());
    }
    const std::vector<cuda::EdgeLayout> layouts = arithmetic_layouts(pipeline());
    memory_ =
        std::make_unique<cuda::SlotMemory>(cuda::SlotMemoryPlan{pipeline(), stage_, layouts, chunks}, slots_);
    code_ =
        std::make_unique<cuda::EagerCode>(pipeline(), stage_, std::move(code), *memory_, bootstrap.rank());
    std::iota(ranks_.begin(), ranks_.end(), 0);
    transport_ = std::make_unique<cuda::IpcTransport>(
        cuda::IpcMember{pipeline(), stage_, ranks_, *memory_, clock_}, all_gather_of(bootstrap));
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
  /// By chunk of the stage.
  [[nodiscard]] std::vector<double> weights() const {
    std::vector<double> weights;
    for (const auto& stage : stages_) weights.push_back(stage->weight());
    return weights;
  }

 private:
  [[nodiscard]] const Pipeline& pipeline() const { return training_.pipeline; }

  void make_runner(std::uint32_t rank) {
    workload_.make_device = [this](std::uint32_t own, StageId stage, std::uint32_t slots, Wake&) {
      cuda::CudaExecutor::Options options = training_.executor;
      options.rank = own;
      auto executor = std::make_unique<cuda::CudaExecutor>(clock_, pipeline(), stage, slots, *code_, options);
      executor_ = executor.get();
      return executor;
    };
    workload_.after_iteration = [this](std::uint32_t, const Iteration& iteration) {
      if (iteration.kind == IterationKind::ForwardOnly) return;
      for (const auto& stage : stages_) stage->step();
    };
    runner_ = std::make_unique<host::RankRunner>(
        pipeline(), workload_, training_.settings, std::move(policy_),
        host::RankParts{rank, stage_, buffers_, *transport_, agreement_, transport_->wake(), watch_});
  }

  const DeviceTraining& training_;
  StageId stage_;
  SharedWatch& watch_;
  Policy policy_;
  std::uint32_t slots_;
  host::SlotBuffers buffers_;
  /// Of each stage.
  std::vector<std::uint32_t> ranks_;
  host::SteadyClock clock_;
  std::vector<std::unique_ptr<DeviceArithmeticStage>> stages_;
  std::unique_ptr<cuda::SlotMemory> memory_;
  std::unique_ptr<cuda::EagerCode> code_;
  std::unique_ptr<cuda::IpcTransport> transport_;
  SingleRank agreement_;
  host::Workload workload_;
  /// The runner's.
  const cuda::CudaExecutor* executor_ = nullptr;
  std::unique_ptr<host::RankRunner> runner_;
};

/// The weights after training with each rank a thread.
inline std::vector<double> trained_by_threads(const DeviceTraining& training) {
  const Pipeline& pipeline = training.pipeline;
  SharedWatch watch;
  std::vector<double> weights(pipeline.chunks());
  on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    TrainingRank rank(training, bootstrap, watch);
    rank.run();
    const std::vector<double> own = rank.weights();
    const auto chunks = pipeline.chunks_of(static_cast<StageId>(bootstrap.rank()));
    for (std::size_t i = 0; i < chunks.size(); ++i) weights[chunks[i]] = own[i];
  });
  return weights;
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
