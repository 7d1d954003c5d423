#include "cuda/training_stage.hpp"

#include <algorithm>

#include "sluice/cuda/eager_code.hpp"

namespace sluice::test {

TrainingStage::TrainingStage(const DeviceTraining& training, StageId stage, std::uint32_t rank,
                             std::uint32_t slots)
    : training_(training),
      stage_(stage),
      rank_(rank),
      kind_(training.code_of ? training.code_of(stage) : DeviceCode::Eager) {
  using Work = DeviceArithmeticStage::Work;
  const Pipeline& pipeline = training.pipeline;
  const Work work = kind_ == DeviceCode::Eager ? Work::Straight : Work::Branched;
  std::vector<cuda::Stage*> code;
  std::vector<cuda::ChunkMemory> chunks;
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    stages_.push_back(std::make_unique<DeviceArithmeticStage>(pipeline, chunk, work));
    code.push_back(stages_.back().get());
    chunks.push_back(stages_.back()->memory());
  }
  const std::vector<cuda::EdgeLayout> layouts = arithmetic_layouts(pipeline);
  memory_ = std::make_unique<cuda::SlotMemory>(cuda::SlotMemoryPlan{pipeline, stage, layouts, chunks}, slots);
  if (kind_ == DeviceCode::Eager) {
    code_ = std::make_unique<cuda::EagerCode>(pipeline, stage, std::move(code), *memory_, rank);
    return;
  }
  graphs::GraphCache::Options options = training.cache;
  options.rank = rank;
  options.capture_unseen = kind_ == DeviceCode::CapturedUnmet;
  auto cache = std::make_unique<graphs::GraphCache>(pipeline, stage, std::move(code), *memory_, options);
  cache_ = cache.get();
  code_ = std::move(cache);
}

std::unique_ptr<cuda::CudaExecutor> TrainingStage::make_executor(const Clock& clock, std::uint32_t slots) {
  cuda::CudaExecutor::Options options = training_.executor;
  options.rank = rank_;
  auto executor =
      std::make_unique<cuda::CudaExecutor>(clock, training_.pipeline, stage_, slots, *code_, options);
  if (kind_ == DeviceCode::Captured) {
    cache_->capture_all(executor->board(), [&](const Launch& launch) { return executor->place_of(launch); });
  }
  return executor;
}

void TrainingStage::step() {
  for (const auto& stage : stages_) stage->step();
}

std::vector<double> TrainingStage::weights() const {
  std::vector<double> weights;
  for (const auto& stage : stages_) weights.push_back(stage->weight());
  return weights;
}

GraphUse TrainingStage::graph_use() const {
  GraphUse use;
  if (cache_ == nullptr) return use;
  use.captures = cache_->statistics().captures;
  use.launches = cache_->statistics().launches;
  use.eager = cache_->statistics().eager;
  use.fewest_nodes = ~std::uint32_t{0};
  for (const graphs::CapturedTask& task : cache_->captured()) {
    use.fewest_nodes = std::min(use.fewest_nodes, task.nodes.total());
    if (!task.verified) ++use.unverified;
  }
  return use;
}

}  // namespace sluice::test
