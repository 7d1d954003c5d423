#include <algorithm>
#include <array>
#include <string>

#include "sluice/error.hpp"
#include "sluice/schedule.hpp"

namespace sluice {
namespace {

using Order = std::vector<Task>;

constexpr std::array<std::string_view, 4> kNames = {"gpipe", "1f1b", "interleaved", "zb-h1"};

void require_one_chunk_a_stage(const Pipeline& pipeline, std::string_view name) {
  if (pipeline.chunks() == pipeline.stages()) return;
  throw ConfigError("schedule", std::string(name) + " needs one chunk a stage, the pipeline has " +
                                    std::to_string(pipeline.chunks()) + " chunks on " +
                                    std::to_string(pipeline.stages()) + " stages");
}

/// Edges on the longest way from each chunk to a chunk without successor.
std::vector<std::uint32_t> distances_to_end(const Pipeline& pipeline) {
  std::vector<std::uint32_t> distance(pipeline.chunks(), 0);
  for (std::uint32_t chunk = pipeline.chunks(); chunk-- > 0;) {
    for (const EdgeId id : pipeline.out_edges(static_cast<Chunk>(chunk))) {
      distance[chunk] = std::max(distance[chunk], distance[pipeline.edges()[id].to] + 1);
    }
  }
  return distance;
}

/// Warm-up forwards, then pairs, then the remaining backwards.
Order alternate(std::uint32_t total, std::uint32_t warm_up, const auto& forward, const auto& backward) {
  Order order;
  warm_up = std::min(warm_up, total);
  for (std::uint32_t i = 0; i < warm_up; ++i) order.push_back(forward(i));
  for (std::uint32_t i = warm_up; i < total; ++i) {
    order.push_back(forward(i));
    order.push_back(backward(i - warm_up));
  }
  for (std::uint32_t i = total - warm_up; i < total; ++i) order.push_back(backward(i));
  return order;
}

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

std::span<const std::string_view> Schedule::names() noexcept { return kNames; }

Schedule Schedule::named(std::string_view name, const Pipeline& pipeline) {
  if (name == "gpipe") return gpipe(pipeline);
  if (name == "1f1b") return one_f_one_b(pipeline);
  if (name == "interleaved") return interleaved(pipeline);
  if (name == "zb-h1") return zb_h1(pipeline);
  std::string known;
  for (const std::string_view each : kNames) known.append(known.empty() ? "" : ", ").append(each);
  throw ConfigError("schedule", "'" + std::string(name) + "' is not one of " + known);
}

Schedule Schedule::gpipe(const Pipeline& pipeline) {
  std::vector<Order> orders(pipeline.stages());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const auto chunks = pipeline.chunks_of(stage);
    const auto append = [&](Chunk chunk, Pass pass) {
      for (Microbatch m = 0; m < pipeline.microbatches(); ++m) orders[stage].push_back({m, chunk, pass});
    };
    for (const Chunk chunk : chunks) append(chunk, Pass::Forward);
    std::for_each(chunks.rbegin(), chunks.rend(), [&](Chunk chunk) { append(chunk, Pass::Backward); });
  }
  return {"gpipe", std::move(orders)};
}

Schedule Schedule::one_f_one_b(const Pipeline& pipeline) {
  require_one_chunk_a_stage(pipeline, "1f1b");
  const std::vector<std::uint32_t> distance = distances_to_end(pipeline);
  std::vector<Order> orders;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const Chunk chunk = pipeline.chunks_of(stage)[0];
    orders.push_back(alternate(
        pipeline.microbatches(), distance[chunk],
        [chunk](std::uint32_t i) {
          return Task{i, chunk, Pass::Forward};
        },
        [chunk](std::uint32_t i) {
          return Task{i, chunk, Pass::Backward};
        }));
  }
  return {"1f1b", std::move(orders)};
}

Schedule Schedule::interleaved(const Pipeline& pipeline) {
  const std::uint32_t stages = pipeline.stages();
  const std::uint32_t chunks = pipeline.chunks() / stages;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const bool chained = pipeline.in_edges(static_cast<Chunk>(chunk)).size() == (chunk == 0 ? 0U : 1U);
    if (pipeline.chunks() % stages == 0 && pipeline.stage_of(static_cast<Chunk>(chunk)) == chunk % stages &&
        chained)
      continue;
    throw ConfigError("schedule", "interleaved needs a chain with chunk c on stage c mod " +
                                      std::to_string(stages) + "; chunk " + std::to_string(chunk) +
                                      " is not placed so");
  }
  const auto grouping = grouped(stages, chunks, pipeline.microbatches());
  const auto total = static_cast<std::uint32_t>(grouping.size());
  std::vector<Order> orders;
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
  schedule.validate(pipeline);
  return schedule;
}

Schedule Schedule::zb_h1(const Pipeline& pipeline) {
  require_one_chunk_a_stage(pipeline, "zb-h1");
  const std::vector<std::uint32_t> distance = distances_to_end(pipeline);
  const std::uint32_t longest = *std::max_element(distance.begin(), distance.end());
  const Microbatch total = pipeline.microbatches();
  std::vector<Order> orders(pipeline.stages());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const Chunk chunk = pipeline.chunks_of(stage)[0];
    Order& order = orders[stage];
    const Microbatch warm_up = std::min(total, distance[chunk] + 1);
    // As many weight gradients are put off as 1F1B on the first stage holds more microbatches than here.
    const std::uint32_t put_off = longest - distance[chunk];
    Microbatch forwards = 0;
    while (forwards < warm_up) order.push_back({forwards++, chunk, Pass::Forward});
    Microbatch weight_grads = 0;
    for (Microbatch m = 0; m < total; ++m) {
      order.push_back({m, chunk, Pass::Backward});
      if (m >= put_off) order.push_back({weight_grads++, chunk, Pass::WeightGrad});
      if (forwards < total) order.push_back({forwards++, chunk, Pass::Forward});
    }
    while (weight_grads < total) order.push_back({weight_grads++, chunk, Pass::WeightGrad});
  }
  return {"zb-h1", std::move(orders)};
}

}  // namespace sluice
