#include "paper/hint_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "option/input_file.hpp"
#include "option/toml_reader.hpp"
#include "run/simulation.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr double kForwardNs = 10e6;
constexpr std::uint32_t kMicrobatchesPerStage = 4;
constexpr std::uint32_t kDefaultLimit = 32;
constexpr std::uint64_t kMostValues = 100;
constexpr std::uint64_t kDeepest = 1024;

const std::vector<std::string_view> kTopologies = {"chain", "interleaved", "v"};

struct Cell {
  std::size_t topology = 0;
  std::uint32_t stages = 1;
  double slowest = 1;
  double tail = 0;
  std::uint32_t limit = kDefaultLimit;
  std::uint32_t group = 1;

  friend bool operator==(const Cell&, const Cell&) = default;
};

struct Grid {
  std::vector<std::string> methods;
  /// What the last method is held against, by number.
  std::vector<std::size_t> against;
  std::uint64_t seeds = 1;
  double sigma = 0;
  std::vector<Cell> cells;
};

template <typename Values>
auto needed(const TomlReader& table, std::string_view key, Values values) {
  if (!values || values->empty()) table.missing(key);
  return *values;
}

void read_block(TomlReader& block, Grid& grid) {
  const std::size_t topology = block.one_of("topology", kTopologies).value_or(0);
  const auto stages = needed(block, "stages", block.wholes("stages", 1, kDeepest, kMostValues));
  const auto slowest = needed(block, "slowest", block.numbers("slowest", 0.01, 100, kMostValues));
  const auto tails = needed(block, "tail", block.numbers("tail", 0, 1000, kMostValues));
  const auto limits = needed(block, "limit", block.wholes("limit", 0, kDeepest, kMostValues));
  const auto groups =
      needed(block, "group", block.wholes("group", 1, sim::Scenario::kLargestGroup, kMostValues));
  block.finish();
  for (const auto depth : stages)
    for (const double slow : slowest)
      for (const double tail : tails)
        for (const auto limit : limits)
          for (const auto group : groups) {
            const auto most = static_cast<std::uint32_t>(limit == 0 ? kDefaultLimit : limit * depth);
            const Cell cell{topology, static_cast<std::uint32_t>(depth), slow, tail,
                            most,     static_cast<std::uint32_t>(group)};
            if (std::find(grid.cells.begin(), grid.cells.end(), cell) == grid.cells.end())
              grid.cells.push_back(cell);
          }
}

Grid read_grid(const std::string& path) {
  const toml::table table = parse_toml(read_file("scenarios", path), path);
  TomlReader file(table, "");
  Grid grid;
  grid.methods = file.texts("methods", kMostValues);
  if (grid.methods.size() < 2) file.refuse("methods", "must name two or more");
  const std::vector<std::string> against = file.texts("against", kMostValues);
  for (const std::string& name : against) {
    if (std::find(grid.methods.begin(), grid.methods.end() - 1, name) == grid.methods.end() - 1)
      file.refuse("against", fmt::format("'{}' is not one of the methods before the last", name));
  }
  for (std::size_t i = 0; i + 1 < grid.methods.size(); ++i) {
    if (against.empty() || std::find(against.begin(), against.end(), grid.methods[i]) != against.end())
      grid.against.push_back(i);
  }
  grid.seeds = file.whole("seeds", 1, 1000).value_or(1);
  grid.sigma = file.number("sigma", 0, host::DurationModel::kMaxSigma).value_or(0);
  for (TomlReader& block : file.tables("block")) read_block(block, grid);
  file.finish();
  if (grid.cells.empty()) file.missing("block");
  return grid;
}

Pipeline pipeline_of(const Cell& cell) {
  const std::uint32_t microbatches = kMicrobatchesPerStage * cell.stages;
  if (cell.topology == 0) return Pipeline::chain(cell.stages, microbatches);
  return cell.topology == 1 ? Pipeline::interleaved(cell.stages, 2, microbatches)
                            : Pipeline::v_shape(cell.stages, microbatches);
}

sim::Scenario scenario_of(const Cell& cell, double sigma) {
  sim::Scenario scenario(pipeline_of(cell));
  const Pipeline& pipeline = scenario.pipeline;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const StageId stage = pipeline.stage_of(static_cast<Chunk>(chunk));
    const double share = 1.0 / static_cast<double>(pipeline.chunks_of(stage).size());
    const double forward = kForwardNs * share * (stage + 1U == pipeline.stages() ? cell.slowest : 1);
    scenario.times[chunk] = host::DurationModel({forward, 2 * forward, forward}, sigma);
  }
  const auto jitter = host::DelayModel::parse(fmt::format("tail:0.3,{}", cell.tail * kForwardNs / 1e6));
  for (sim::Link& link : scenario.links) link.jitter = jitter;
  std::fill(scenario.limits.begin(), scenario.limits.end(), cell.limit);
  scenario.group.size = cell.group;
  scenario.group.latency = std::chrono::microseconds(cell.group > 1 ? 50 : 0);
  scenario.skew.mean = std::chrono::microseconds(cell.group > 1 ? 500 : 0);
  return scenario;
}

/// The last method against the best of those it is held against.
struct Verdict {
  std::size_t best = 0;
  double ratio = 1;
};

Verdict judge(const Grid& grid, const std::vector<double>& seconds) {
  const std::size_t best =
      *std::min_element(grid.against.begin(), grid.against.end(),
                        [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  return {best, seconds.back() / seconds[best]};
}

std::string name_of(const Cell& cell) {
  return fmt::format("{} of {} stages, last x{}, tail {} f, limit {}, group {}", kTopologies[cell.topology],
                     cell.stages, cell.slowest, cell.tail, cell.limit, cell.group);
}

std::vector<std::string> cells_of(const Cell& cell) {
  return {std::string(kTopologies[cell.topology]),
          std::to_string(cell.stages),
          fmt::format("{}", cell.slowest),
          fmt::format("{}", cell.tail),
          std::to_string(cell.limit),
          std::to_string(cell.group)};
}

void summarize(const Grid& grid, const std::vector<Verdict>& verdicts, ReportTable& table) {
  const auto less = [](const Verdict& a, const Verdict& b) { return a.ratio < b.ratio; };
  const auto [best, worst] = std::minmax_element(verdicts.begin(), verdicts.end(), less);
  const auto within =
      std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& each) { return each.ratio <= 1.01; });
  const std::string& last = grid.methods.back();
  const auto line = [&](const char* what, std::vector<Verdict>::const_iterator at) {
    const Cell& cell = grid.cells[static_cast<std::size_t>(at - verdicts.begin())];
    table.notes.push_back(fmt::format("{} cell of {}: {:.3f} of {} ({})", what, last, at->ratio,
                                      grid.methods[at->best], name_of(cell)));
  };
  line("Worst", worst);
  line("Best", best);
  table.notes.push_back(fmt::format("{} is within 1 % of the best other hint in {} of {} cells", last, within,
                                    verdicts.size()));
  table.json["within_1_percent"] = within;
  table.json["cells"] = verdicts.size();
  table.json["worst_ratio"] = worst->ratio;
  table.json["best_ratio"] = best->ratio;
}

}  // namespace

ReportTable reproduce_hint_grid(const std::string& path, const ReproduceSettings& settings) {
  const Grid grid = read_grid(path);
  ReportTable table;
  table.id = "hints";
  table.title = fmt::format("Hints on a grid: median ms, and {} over the best other", grid.methods.back());
  table.columns = {"topology", "stages", "last x", "tail, f", "limit", "group"};
  table.columns.insert(table.columns.end(), grid.methods.begin(), grid.methods.end());
  table.columns.emplace_back("ratio");
  table.json = {{"table", table.id}, {"rows", nlohmann::json::array()}};
  std::vector<Verdict> verdicts;
  for (const Cell& cell : grid.cells) {
    settings.progress(verdicts.size(), grid.cells.size(), name_of(cell));
    const sim::Scenario scenario = scenario_of(cell, grid.sigma);
    std::vector<Method> methods;
    for (const std::string& name : grid.methods)
      methods.emplace_back(name, scenario.pipeline, method_settings(scenario));
    SimulationSettings simulation;
    simulation.seeds = settings.seeds.value_or(grid.seeds);
    simulation.threads = settings.threads;
    std::vector<double> seconds;
    std::vector<std::string> cells = cells_of(cell);
    nlohmann::json json = {{"cell", name_of(cell)}};
    for (const SimulatedMethod& method : simulate_methods(scenario, methods, simulation)) {
      seconds.push_back(method.median_makespan());
      cells.push_back(fmt::format("{:.0f}", 1e3 * seconds.back()));
      json["makespan_s"][method.name] = seconds.back();
    }
    verdicts.push_back(judge(grid, seconds));
    cells.push_back(fmt::format("{:.3f}", verdicts.back().ratio));
    json["ratio"] = verdicts.back().ratio;
    table.rows.push_back(std::move(cells));
    table.json["rows"].push_back(std::move(json));
  }
  summarize(grid, verdicts, table);
  return table;
}

}  // namespace sluice::tools
