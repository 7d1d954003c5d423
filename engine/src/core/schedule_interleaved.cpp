#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "alternate.hpp"
#include "require_placement.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule.hpp"

namespace sluice {
namespace {

/// (chunk position, microbatch) of the k-th forward of a stage: microbatches pass the chunks in groups
/// as large as the pipeline is deep.
std::vector<std::pair<std::uint32_t, Microbatch>> grouped(std::uint32_t stages, std::uint32_t chunks,
                                                          Microbatch microbatches) {
  std::vector<std::pair<std::uint32_t, Microbatch>> order;
  for (Microbatch first = 0; first < microbatches; first += stages) {
    const Microbatch last = std::min(microbatches, first + stages);
    for (std::uint32_t position = 0; position < chunks; ++position) {
      for (Microbatch m = first; m < last; ++m) order.emplace_back(position, m);
    }
  }
  return order;
}

}  // namespace

Schedule Schedule::interleaved(const Pipeline& pipeline) {
  require_placement(pipeline, Placement::Interleaved, "interleaved");
  const std::uint32_t stages = pipeline.stages();
  const std::uint32_t chunks = pipeline.chunks() / stages;
  const auto grouping = grouped(stages, chunks, pipeline.microbatches());
  const auto total = static_cast<std::uint32_t>(grouping.size());
  std::vector<std::vector<Task>> orders;
  for (StageId stage = 0; stage < stages; ++stage) {
    const auto owned = pipeline.chunks_of(stage);
    // With one chunk this is 1F1B; with fewer microbatches than stages every forward is warm-up.
    const std::uint32_t warm_up =
        chunks == 1 ? stages - stage - 1U : (stages - stage - 1U) * 2 + (chunks - 1) * stages;
    orders.push_back(alternate(
        total, pipeline.microbatches() < stages ? total : warm_up,
        [&](std::uint32_t i) {
          return Task{grouping[i].second, owned[grouping[i].first], Pass::Forward};
        },
        [&](std::uint32_t i) {
          return Task{grouping[i].second, owned[chunks - 1 - grouping[i].first], Pass::Backward};
        }));
  }
  Schedule schedule("interleaved", std::move(orders));
  // What may be wrong with it depends on the number of microbatches alone.
  if (!schedule.faults(pipeline).empty()) {
    throw ConfigError("microbatches", "interleaved deadlocks with " +
                                          std::to_string(pipeline.microbatches()) + " microbatches on " +
                                          std::to_string(stages) + " stages of " + std::to_string(chunks) +
                                          " chunks; a multiple of the stages always works");
  }
  return schedule;
}

Schedule Schedule::looped_bfs(const Pipeline& pipeline) {
  require_placement(pipeline, Placement::Interleaved, "looped-bfs");
  const Microbatch microbatches = pipeline.microbatches();
  std::vector<std::vector<Task>> orders(pipeline.stages());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const auto owned = pipeline.chunks_of(stage);
    std::vector<Task>& order = orders[stage];
    order.reserve(owned.size() * microbatches * 2);
    for (const Chunk chunk : owned) {
      for (Microbatch m = 0; m < microbatches; ++m) order.push_back({m, chunk, Pass::Forward});
    }
    for (std::size_t position = owned.size(); position-- > 0;) {
      for (Microbatch m = microbatches; m-- > 0;) order.push_back({m, owned[position], Pass::Backward});
    }
  }
  return {"looped-bfs", std::move(orders)};
}

}  // namespace sluice
