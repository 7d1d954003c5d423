#include <algorithm>
#include <utility>
#include <vector>

#include "sluice/hint.hpp"

namespace sluice {
namespace {

/// A hop of a forward takes one unit of time, a hop of a backward two.
constexpr std::uint64_t kBackwardHop = 2;
constexpr std::uint64_t kBothHops = 1 + kBackwardHop;

/// When each task of a stage is due.
struct Pace {
  /// By the chunk's position and the microbatch.
  std::vector<std::vector<std::uint64_t>> forward;
  std::vector<std::vector<std::uint64_t>> backward;
};

/// A chain with chunk c on stage c mod stages.
bool is_loop(const Pipeline& pipeline) {
  if (pipeline.chunks() % pipeline.stages() != 0) return false;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const auto edges = pipeline.in_edges(static_cast<Chunk>(chunk));
    if (pipeline.stage_of(static_cast<Chunk>(chunk)) != chunk % pipeline.stages()) return false;
    if (edges.size() != (chunk == 0 ? 0U : 1U)) return false;
    if (chunk > 0 && pipeline.edges()[edges[0]].from + 1U != chunk) return false;
  }
  return true;
}

/// Microbatches pass the chunks of a stage in groups as large as the pipeline is deep, a backward as long
/// after its forward as 1F1B and interleaved 1F1B warm up (Narayanan et al., 2021).
Pace pace_of_loop(const Pipeline& pipeline, StageId stage) {
  const std::uint32_t stages = pipeline.stages();
  const std::uint32_t chunks = pipeline.chunks() / stages;
  const std::uint32_t to_end = stages - stage - 1;
  const std::uint32_t warm_up = chunks == 1 ? to_end : 2 * to_end + (chunks - 1) * stages;
  Pace pace{std::vector(chunks, std::vector<std::uint64_t>(pipeline.microbatches())),
            std::vector(chunks, std::vector<std::uint64_t>(pipeline.microbatches()))};
  std::uint64_t next = 0;
  for (Microbatch first = 0; first < pipeline.microbatches(); first += stages) {
    const Microbatch last = std::min(pipeline.microbatches(), first + stages);
    for (std::uint32_t position = 0; position < chunks; ++position) {
      for (Microbatch m = first; m < last; ++m) {
        pace.forward[position][m] = next;
        pace.backward[chunks - 1 - position][m] = next + warm_up + 1;
        ++next;
      }
    }
  }
  return pace;
}

/// Microbatches enter one after the other, as fast as the stage with most chunks can work, and go down
/// the longest way and back.
Pace pace_of_graph(const Pipeline& pipeline, StageId stage) {
  std::vector<std::uint64_t> from_start(pipeline.chunks());
  const std::vector<std::uint32_t> to_end = pipeline.hops_to_end();
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    for (const EdgeId id : pipeline.in_edges(static_cast<Chunk>(chunk)))
      from_start[chunk] = std::max(from_start[chunk], from_start[pipeline.edges()[id].from] + 1);
  }
  const std::uint64_t turn = *std::max_element(to_end.begin(), to_end.end()) + std::uint64_t{1};
  std::size_t most_chunks = 1;
  for (StageId each = 0; each < pipeline.stages(); ++each)
    most_chunks = std::max(most_chunks, pipeline.chunks_of(each).size());
  Pace pace;
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    auto& forward = pace.forward.emplace_back();
    auto& backward = pace.backward.emplace_back();
    for (Microbatch m = 0; m < pipeline.microbatches(); ++m) {
      const std::uint64_t enters = m * kBothHops * most_chunks;
      forward.push_back(enters + from_start[chunk]);
      backward.push_back(enters + turn + kBackwardHop * to_end[chunk]);
    }
  }
  return pace;
}

}  // namespace

Hint Hint::pace(const Pipeline& pipeline, StageId stage) {
  const Pace pace = is_loop(pipeline) ? pace_of_loop(pipeline, stage) : pace_of_graph(pipeline, stage);
  const auto chunks = pipeline.chunks_of(stage);
  std::vector<std::pair<std::uint64_t, Task>> due;
  std::vector<Task> weight_grads;
  due.reserve(2 * chunks.size() * pipeline.microbatches());
  weight_grads.reserve(chunks.size() * pipeline.microbatches());
  // Of two due at once a backward comes before a forward: it frees memory.
  for (std::size_t position = chunks.size(); position-- > 0;) {
    for (Microbatch m = 0; m < pipeline.microbatches(); ++m) {
      due.emplace_back(pace.backward[position][m], Task{m, chunks[position], Pass::Backward});
      weight_grads.push_back({m, chunks[position], Pass::WeightGrad});
    }
  }
  for (std::size_t position = 0; position < chunks.size(); ++position) {
    for (Microbatch m = 0; m < pipeline.microbatches(); ++m)
      due.emplace_back(pace.forward[position][m], Task{m, chunks[position], Pass::Forward});
  }
  std::stable_sort(due.begin(), due.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Task> tasks;
  tasks.reserve(due.size());
  for (const auto& [time, task] : due) tasks.push_back(task);
  return {"pace", pipeline, stage, RoundRule::Priority, {std::move(tasks), std::move(weight_grads), {}}};
}

}  // namespace sluice
