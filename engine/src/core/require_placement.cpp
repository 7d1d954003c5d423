#include "require_placement.hpp"

#include <string>

#include "sluice/error.hpp"

namespace sluice {
namespace {

/// The chunk's only input is the chunk before it; the first has none.
bool chained(const Pipeline& pipeline, Chunk chunk) {
  const auto inputs = pipeline.in_edges(chunk);
  if (chunk == 0) return inputs.empty();
  return inputs.size() == 1 && pipeline.edges()[inputs[0]].from + 1U == chunk;
}

}  // namespace

void require_placement(const Pipeline& pipeline, Placement placement, std::string_view schedule) {
  const std::uint32_t stages = pipeline.stages();
  const bool v = placement == Placement::V;
  const bool fits = v ? pipeline.chunks() == 2 * stages : pipeline.chunks() % stages == 0;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const std::uint32_t stage = v && chunk >= stages ? 2 * stages - 1 - chunk : chunk % stages;
    const auto id = static_cast<Chunk>(chunk);
    if (fits && pipeline.stage_of(id) == stage && chained(pipeline, id)) continue;
    const std::string placed = v ? "2 chunks a stage, down the stages and back up"
                                 : "chunk c on stage c mod " + std::to_string(stages);
    throw ConfigError("schedule", std::string(schedule) + " needs a chain with " + placed + "; chunk " +
                                      std::to_string(chunk) + " of " + std::to_string(pipeline.chunks()) +
                                      " is not placed so");
  }
}

}  // namespace sluice
