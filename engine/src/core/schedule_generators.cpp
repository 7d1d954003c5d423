#include <algorithm>
#include <array>
#include <string>

#include "alternate.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule.hpp"

namespace sluice {
namespace {

using Order = std::vector<Task>;

struct Generator {
  std::string_view name;
  Schedule (*make)(const Pipeline&);
  Placement placement;
};

constexpr std::array<Generator, 7> kGenerators = {{
    {"gpipe", Schedule::gpipe, Placement::Interleaved},
    {"1f1b", Schedule::one_f_one_b, Placement::Interleaved},
    {"interleaved", Schedule::interleaved, Placement::Interleaved},
    {"looped-bfs", Schedule::looped_bfs, Placement::Interleaved},
    {"zb-h1", Schedule::zb_h1, Placement::Interleaved},
    {"zb-v", Schedule::zb_v, Placement::V},
    {"dualpipe-v", Schedule::dualpipe_v, Placement::V},
}};

constexpr auto kScheduleNames = [] {
  std::array<std::string_view, kGenerators.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kGenerators[i].name;
  return names;
}();

const Generator& generator_of(std::string_view name) {
  for (const Generator& each : kGenerators) {
    if (each.name == name) return each;
  }
  std::string known;
  for (const std::string_view each : kScheduleNames) known.append(known.empty() ? "" : ", ").append(each);
  throw ConfigError("schedule", "'" + std::string(name) + "' is not one of " + known);
}

void require_one_chunk_a_stage(const Pipeline& pipeline, std::string_view name) {
  if (pipeline.chunks() == pipeline.stages()) return;
  throw ConfigError("schedule", std::string(name) + " needs one chunk a stage, the pipeline has " +
                                    std::to_string(pipeline.chunks()) + " chunks on " +
                                    std::to_string(pipeline.stages()) + " stages");
}

}  // namespace

std::span<const std::string_view> Schedule::names() noexcept { return kScheduleNames; }

Schedule Schedule::named(std::string_view name, const Pipeline& pipeline) {
  return generator_of(name).make(pipeline);
}

Placement Schedule::placement(std::string_view name) { return generator_of(name).placement; }

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
  const std::vector<std::uint32_t> distance = pipeline.hops_to_end();
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

Schedule Schedule::zb_h1(const Pipeline& pipeline) {
  require_one_chunk_a_stage(pipeline, "zb-h1");
  const std::vector<std::uint32_t> distance = pipeline.hops_to_end();
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
