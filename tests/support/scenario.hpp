#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sluice/sim/world.hpp"
#include "staggered_world.hpp"

/// Random pipelines and everything around them.
namespace sluice::test {

/// Draws an integer in [low, high].
using Draw = std::function<std::uint32_t(std::uint32_t low, std::uint32_t high)>;
/// Draws of a generator of its own.
[[nodiscard]] Draw seeded_draw(std::uint64_t seed);
/// Draws that RapidCheck makes and shrinks. Only inside a property.
[[nodiscard]] Draw rapidcheck_draw();

/// One run to try: all of it follows from the draws.
struct Scenario {
  Pipeline pipeline;
  std::vector<std::uint32_t> limits;
  std::vector<Hint> hints;
  Rules rules{};
  std::array<Lane, kPasses> lanes{};
  std::uint32_t depth = 1;
  std::vector<Iteration> iterations{{0, IterationKind::Training}};
  std::uint64_t seed = 0;
  /// Longest task, and the power of two that bounds a message's delay, in nanoseconds.
  std::uint32_t longest_task = 20;
  std::uint32_t delay_bits = 10;
};

[[nodiscard]] std::string describe(const Scenario& scenario);

enum class Shape : std::uint8_t { Chain, Interleaved, V, Joined, Dag };
inline constexpr std::uint32_t kShapes = 5;
[[nodiscard]] Pipeline draw_pipeline(const Draw& draw, Shape shape);

/// Any order of each pass, in three classes or one, by rounds or by priority.
[[nodiscard]] Hint draw_hint(const Draw& draw, const Pipeline& pipeline, StageId stage);
/// Late microbatches first.
[[nodiscard]] Hint reversed_hint(const Pipeline& pipeline, StageId stage);

/// Everything is drawn: placement, hints, limits, times, lanes, iterations.
[[nodiscard]] Scenario draw_scenario(const Draw& draw);

[[nodiscard]] std::uint32_t chunks_on(const Pipeline& pipeline, StageId stage);
[[nodiscard]] Duration task_time(const Scenario& scenario, std::uint64_t iteration, const Task& task);
/// Zero, or late by anything up to the bound, each power of two as likely.
[[nodiscard]] Duration message_delay(const Scenario& scenario, const MessageId& id);

[[nodiscard]] DispatcherConfig config_of(const Scenario& scenario, StageId stage);
[[nodiscard]] sim::Surroundings surroundings_of(const Scenario& scenario);
[[nodiscard]] std::vector<sim::StageSetup> setups_of(const Scenario& scenario);
[[nodiscard]] std::vector<sim::StageSetup> replay_setups(const Scenario& scenario, const Record& record);
[[nodiscard]] std::vector<sim::StageSetup> fixed_setups(const Scenario& scenario, const Schedule& schedule);

/// @throws StallError where the scenario deadlocks
[[nodiscard]] Record run(const Scenario& scenario);
[[nodiscard]] Record run(const Scenario& scenario, std::vector<sim::StageSetup> setups);

/// Whether the scenario deadlocks.
[[nodiscard]] bool deadlocks(const Scenario& scenario);

}  // namespace sluice::test
