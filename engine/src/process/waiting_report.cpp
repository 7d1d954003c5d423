#include "sluice/process/waiting_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

namespace sluice::process {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kListed = 256;
constexpr std::size_t kTasksNamed = 6;

std::string name_of(const Task& task, bool with_chunk) {
  std::string name = letter(task.pass) + std::to_string(task.microbatch);
  if (with_chunk) name += fmt::format(" of chunk {}", task.chunk);
  return name;
}

std::string message_of(const FarEnd& far) {
  return fmt::format("{} of edge {}", far.direction == Direction::Activation ? "activation" : "gradient",
                     far.edge);
}

/// In a report, not in a computation.
double milliseconds_exact(Duration duration) {
  return std::round(std::chrono::duration<double>(duration).count() * 1000) / 1000;
}

/// The rank of another stage that this one speaks with.
std::uint32_t peer_rank(const RankGrid& grid, std::uint32_t rank, StageId stage) {
  RankPlace place = grid.place_of(rank);
  place.stage = stage;
  return grid.rank_of(place);
}

ordered_json json_of(const Wait& wait, const Waiting& waiting, const RankGrid& grid) {
  ordered_json entry = {{"task", name_of(wait.task, true)}, {"waits_for", to_string(wait.what)}};
  if (wait.far) {
    const std::string side = wait.what == WaitFor::Receiver ? "to" : "from";
    entry["needs"] = message_of(*wait.far);
    entry[side + "_stage"] = wait.far->stage;
    entry[side + "_rank"] = peer_rank(grid, waiting.rank, wait.far->stage);
  }
  if (waiting.since) entry["since_s"] = milliseconds_exact(*waiting.since);
  return entry;
}

ordered_json json_of(std::span<const Wait> waits, const Waiting& waiting, const RankGrid& grid) {
  ordered_json list = ordered_json::array();
  for (const Wait& wait : waits.first(std::min(waits.size(), kListed)))
    list.push_back(json_of(wait, waiting, grid));
  return list;
}

/// Whether the far end makes the message from what the stage makes: activations come from all before them,
/// gradients from all behind.
bool made_from(const Pipeline& pipeline, const FarEnd& far, StageId stage) {
  std::vector<Chunk> open = {far.chunk};
  std::vector<bool> seen(pipeline.chunks());
  while (!open.empty()) {
    const Chunk chunk = open.back();
    open.pop_back();
    if (seen[chunk]) continue;
    seen[chunk] = true;
    if (pipeline.stage_of(chunk) == stage) return true;
    const bool forward = far.direction == Direction::Activation;
    for (const EdgeId edge : forward ? pipeline.in_edges(chunk) : pipeline.out_edges(chunk))
      open.push_back(forward ? pipeline.edges()[edge].from : pipeline.edges()[edge].to);
  }
  return false;
}

/// Why the wait is one for the other rank; nothing if it is none.
std::optional<std::string> reason_of(const Wait& wait, const Waiting& waiting, const Pipeline& pipeline,
                                     const RankGrid& grid, std::uint32_t other) {
  const RankPlace own = grid.place_of(waiting.rank);
  const RankPlace place = grid.place_of(other);
  if (place.replica != own.replica) return std::nullopt;
  if (wait.what == WaitFor::Agreement && place.stage == own.stage) return "agreement";
  if (!wait.far) return std::nullopt;
  const std::string what =
      wait.what == WaitFor::Receiver ? "to take the " + message_of(*wait.far) : message_of(*wait.far);
  const std::uint32_t peer = peer_rank(grid, waiting.rank, wait.far->stage);
  if (peer == other) return what;
  if (wait.what == WaitFor::Receiver || !made_from(pipeline, *wait.far, place.stage)) return std::nullopt;
  return fmt::format("{}, through rank {}", what, peer);
}

}  // namespace

std::string waiting_json(const Waiting& waiting, const RankGrid& grid) {
  ordered_json launched = ordered_json::array();
  for (const Launched& lane : waiting.launched)
    launched.push_back({{"tasks", lane.tasks}, {"last", name_of(lane.last, true)}});
  const auto left_out = [](const std::vector<Wait>& waits) {
    return waits.size() - std::min(waits.size(), kListed);
  };
  ordered_json report = {
      {"rank", waiting.rank},
      {"stage", waiting.stage},
      {"iteration", waiting.iteration},
      {"finished", waiting.finished},
      {"pairs", waiting.pairs},
      {"in_flight", waiting.in_flight},
      {"limit", waiting.limit},
      {"held_by_limit", waiting.held_by_limit},
      {"since_s", waiting.since ? ordered_json(milliseconds_exact(*waiting.since)) : ordered_json()},
      {"launched", launched},
      {"waits", json_of(waiting.blocked, waiting, grid)},
      {"ready", json_of(waiting.ready, waiting, grid)},
      {"left_out", left_out(waiting.blocked) + left_out(waiting.ready)}};
  if (waiting.next_in_order) report["next_in_order"] = name_of(*waiting.next_in_order, true);
  return report.dump();
}

std::string waiting_for(const Waiting& waiting, const Pipeline& pipeline, const RankGrid& grid,
                        std::uint32_t other) {
  const bool with_chunk = pipeline.chunks_of(waiting.stage).size() > 1;
  std::vector<std::string> named;
  std::size_t count = 0;
  for (const std::vector<Wait>* waits : {&waiting.blocked, &waiting.ready}) {
    for (const Wait& wait : *waits) {
      const std::optional<std::string> reason = reason_of(wait, waiting, pipeline, grid, other);
      if (!reason || ++count > kTasksNamed) continue;
      named.push_back(fmt::format("{} ({})", name_of(wait.task, with_chunk), *reason));
    }
  }
  if (count == 0) return {};
  const std::string more = count > kTasksNamed ? fmt::format(" and {} more", count - kTasksNamed) : "";
  return fmt::format("waiting for {}: {}{}", to_string(grid, other), fmt::join(named, ", "), more);
}

}  // namespace sluice::process
