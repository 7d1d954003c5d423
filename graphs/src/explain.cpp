#include "sluice/graphs/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

using Text = std::back_insert_iterator<std::string>;

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double step = 1024;
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

double milliseconds(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// Graphs that differ in their slot only.
struct Group {
  std::uint32_t graphs = 0;
  std::uint32_t most_nodes = 0;
  double max_rel_error = 0;
  bool verified = true;
};

using Groups = std::map<std::tuple<Chunk, Pass, bool, std::uint32_t>, Group>;

Groups grouped(const Manifest& manifest) {
  Groups groups;
  for (const CapturedTask& task : manifest.tasks) {
    Group& group = groups[{task.key.chunk, task.key.pass, task.key.whole, task.bucket}];
    ++group.graphs;
    group.most_nodes = std::max(group.most_nodes, task.nodes.total());
    group.max_rel_error = std::max(group.max_rel_error, task.verification.max_rel_error);
    group.verified = group.verified && task.verified;
  }
  return groups;
}

void add_table(const Manifest& manifest, const LaunchCost& cost, Text text) {
  fmt::format_to(text, "\n{:<22}{:>7}{:>7}{:>18}  {}\n", "task", "graphs", "nodes", "launch (us)", "replay");
  for (const auto& [key, group] : grouped(manifest)) {
    const auto& [chunk, pass, whole, bucket] = key;
    const double least = cost.least_us + cost.least_node_us * group.most_nodes;
    const double most = cost.most_us + cost.most_node_us * group.most_nodes;
    const std::string name = fmt::format("{}{} of chunk {}{}", letter(pass), whole ? " (whole)" : "", chunk,
                                         bucket == 0 ? std::string() : fmt::format(", shapes {}", bucket));
    fmt::format_to(
        text, "{:<22}{:>7}{:>7}{:>18}  {}\n", name, group.graphs, group.most_nodes,
        fmt::format("{:.1f} to {:.1f}", std::min(least, most), std::max(least, most)),
        group.verified ? fmt::format("differs by {:g} at most", group.max_rel_error) : "not verified");
  }
}

void add_memory(const Manifest& manifest, const ManifestTotals& sums, Text text) {
  fmt::format_to(text, "\nmemory: {} slots of {}, {} of temporaries a lane, {} in all; graphs allocate {}\n",
                 manifest.slots, bytes_text(manifest.memory.saved_per_slot),
                 bytes_text(manifest.memory.temporary), bytes_text(manifest.memory.total),
                 bytes_text(sums.graph_bytes));
  if (const std::string uncounted = uncounted_memory(manifest); !uncounted.empty())
    fmt::format_to(text, "{}\n", uncounted);
}

void add_limit(const Manifest& manifest, std::uint64_t bytes, Text text) {
  if (const std::string uncounted = uncounted_memory(manifest); !uncounted.empty()) {
    fmt::format_to(text, "in {}: no limit can be told, for {}\n", bytes_text(bytes), uncounted);
    return;
  }
  const std::optional<std::uint64_t> limit = limit_within(manifest, bytes);
  if (!limit.has_value()) {
    fmt::format_to(text, "in {}: any limit fits, for slots take no memory\n", bytes_text(bytes));
  } else if (*limit == 0) {
    fmt::format_to(text, "in {}: no limit fits; split the stage or the microbatches\n", bytes_text(bytes));
  } else {
    fmt::format_to(text, "in {}: a limit of {} fits\n", bytes_text(bytes), *limit);
  }
}

}  // namespace

ManifestTotals totals(const Manifest& manifest) {
  ManifestTotals sums;
  std::array<std::uint64_t, kLanes> graph_bytes{};
  for (const CapturedTask& task : manifest.tasks) {
    const std::uint32_t nodes = task.nodes.total();
    sums.fewest_nodes = sums.graphs == 0 ? nodes : std::min(sums.fewest_nodes, nodes);
    sums.most_nodes = std::max(sums.most_nodes, nodes);
    ++sums.graphs;
    sums.nodes += nodes;
    sums.capture += task.capture;
    sums.instantiate += task.instantiate;
    std::uint64_t& lane = graph_bytes[static_cast<std::size_t>(task.lane)];
    lane = std::max<std::uint64_t>(lane, task.graph_bytes);
    if (!task.verified) ++sums.unverified;
    if (task.verified && !task.verification.deterministic) ++sums.not_deterministic;
  }
  for (const std::uint64_t bytes : graph_bytes) sums.graph_bytes += bytes;
  return sums;
}

std::string uncounted_memory(const Manifest& manifest) {
  const auto chunks = std::ranges::count(manifest.saves_outside_slot, true);
  if (chunks == 0) return {};
  return fmt::format("the memory that {} of {} chunks {} outside the slots is not counted", chunks,
                     manifest.saves_outside_slot.size(), chunks == 1 ? "saves" : "save");
}

std::optional<std::uint64_t> limit_within(const Manifest& manifest, std::uint64_t bytes) {
  if (const std::string uncounted = uncounted_memory(manifest); !uncounted.empty())
    throw ConfigError("saves_outside_slot", uncounted);
  const std::uint64_t slot = manifest.memory.saved_per_slot;
  const std::uint64_t slots_bytes = slot * manifest.slots;
  const std::uint64_t beside = manifest.memory.total -
                               std::min<std::uint64_t>(slots_bytes, manifest.memory.total) +
                               totals(manifest).graph_bytes;
  if (bytes < beside) return 0;
  if (slot == 0) return std::nullopt;
  const std::uint64_t slots = (bytes - beside) / slot;
  const std::uint64_t chunks = manifest.saved_bytes.size();
  const std::uint64_t extra = chunks > 1 ? chunks : 0;
  const std::uint64_t limit = slots > extra ? slots - extra : 0;
  return limit < chunks ? 0 : limit;
}

std::string explain(const Manifest& manifest, std::optional<std::uint64_t> memory_bytes,
                    const LaunchCost& cost) {
  const ManifestTotals sums = totals(manifest);
  std::string explanation;
  const Text text(explanation);
  fmt::format_to(text, "rank {} on {}: {} graphs of {} nodes", manifest.rank, manifest.device, sums.graphs,
                 sums.nodes);
  if (sums.graphs > 0) fmt::format_to(text, ", {} to {} each", sums.fewest_nodes, sums.most_nodes);
  fmt::format_to(text, "\ncaptured in {:.1f} ms, instantiated in {:.1f} ms\n", milliseconds(sums.capture),
                 milliseconds(sums.instantiate));
  add_table(manifest, cost, text);
  fmt::format_to(text, "launch: the host's time, an estimate {}\n", cost.source);
  if (sums.not_deterministic > 0)
    fmt::format_to(text, "{} graphs have kernels whose runs differ from each other\n",
                   sums.not_deterministic);
  add_memory(manifest, sums, text);
  if (memory_bytes.has_value()) add_limit(manifest, *memory_bytes, text);
  return explanation;
}

}  // namespace sluice::graphs
