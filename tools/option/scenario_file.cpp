#include "option/scenario_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "option/options.hpp"
#include "option/toml_reader.hpp"
#include "option/trace_input.hpp"
#include "option/units.hpp"
#include "run/recorded_scenario.hpp"
#include "run/what_if.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kMostChunks = std::numeric_limits<Chunk>::max();
constexpr std::uint64_t kMostMicrobatches = 1U << 24U;
constexpr std::uint64_t kLongestFile = 64U << 20U;
constexpr double kLargestBandwidth = 1e15;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;

/// What an error says after the name of its field.
std::string reason_of(const ConfigError& error) {
  const std::string_view what = error.what();
  return std::string(what.substr(std::min(what.size(), error.field().size() + 2)));
}

/// Runs what may refuse a field of its own, and says where in the file that was.
template <typename Function>
auto located(const TomlReader& reader, std::string_view key, Function function) {
  try {
    return function();
  } catch (const ConfigError& error) {
    reader.refuse(key, reason_of(error));
  }
}

std::uint32_t needed(TomlReader& reader, std::string_view key, std::uint64_t most) {
  const auto value = reader.whole(key, 1, most);
  if (!value) reader.missing(key);
  return static_cast<std::uint32_t>(*value);
}

Pipeline explicit_pipeline(TomlReader& table, Microbatch microbatches) {
  const auto stages = table.wholes("stage-of", 0, kMostChunks, kMostChunks);
  if (!stages) table.missing("stage-of");
  std::vector<ChunkPlacement> chunks;
  for (const std::uint64_t stage : *stages) chunks.push_back({static_cast<StageId>(stage), true});
  if (const auto fused = table.wholes("unsplittable", 0, kMostChunks, kMostChunks)) {
    for (const std::uint64_t chunk : *fused) {
      if (chunk >= chunks.size()) table.refuse("unsplittable", fmt::format("there is no chunk {}", chunk));
      chunks[chunk].splittable = false;
    }
  }
  std::vector<Edge> edges;
  for (const auto& [from, to] : table.pairs("edges", kMostChunks, kMostChunks))
    edges.push_back({static_cast<Chunk>(from), static_cast<Chunk>(to)});
  return located(table, "edges", [&] { return Pipeline(chunks, edges, microbatches, false); });
}

Pipeline joined_pipeline(TomlReader& table, Microbatch microbatches) {
  const auto given = table.wholes("encoders", 1, kMostChunks, kMostChunks);
  if (!given) table.missing("encoders");
  const std::uint32_t decoder = needed(table, "decoder", kMostChunks);
  std::uint64_t chunks = decoder;
  for (const std::uint64_t depth : *given) chunks += depth;
  if (chunks > kMostChunks) table.refuse("encoders", fmt::format("{} chunks are too many", chunks));
  const std::vector<std::uint32_t> depths(given->begin(), given->end());
  return located(table, "encoders", [&] { return Pipeline::joined(depths, decoder, microbatches); });
}

Pipeline read_pipeline(TomlReader& file) {
  const auto microbatches = static_cast<Microbatch>(needed(file, "microbatches", kMostMicrobatches));
  auto table = file.table("pipeline");
  if (!table) file.missing("pipeline");
  const auto topology =
      table->one_of("topology", {"chain", "interleaved", "v", "joined", "explicit"}).value_or(0);
  const auto stages = [&] { return needed(*table, "stages", kMostChunks); };
  const auto build = [&]() -> Pipeline {
    switch (topology) {
      case 0:
        return Pipeline::chain(stages(), microbatches);
      case 1: {
        const std::uint32_t chunks_per_stage = needed(*table, "chunks-per-stage", kMostChunks);
        return located(*table, "chunks-per-stage",
                       [&] { return Pipeline::interleaved(stages(), chunks_per_stage, microbatches); });
      }
      case 2:
        return located(*table, "stages", [&] { return Pipeline::v_shape(stages(), microbatches); });
      case 3:
        return joined_pipeline(*table, microbatches);
      default:
        return explicit_pipeline(*table, microbatches);
    }
  };
  Pipeline pipeline = build();
  table->finish();
  return pipeline;
}

/// What a table of times says; what it leaves out stays.
struct GivenTimes {
  std::optional<double> forward_ns, backward_ns, weight_grad_ns, scale, sigma;
  std::optional<std::size_t> spread;

  explicit GivenTimes(TomlReader& table)
      : forward_ns(table.nanoseconds("forward")),
        backward_ns(table.nanoseconds("backward")),
        weight_grad_ns(table.nanoseconds("weight-grad")),
        scale(table.number("scale", 0, 1e6)),
        sigma(table.number("sigma", 0, host::DurationModel::kMaxSigma)),
        spread(table.one_of("spread", {"lognormal", "normal"})) {}

  [[nodiscard]] host::DurationModel over(const TomlReader& table, const host::DurationModel& old) const {
    host::DurationModel::Times times = old.times();
    const double share = times.backward_ns > 0 ? times.weight_grad_ns / times.backward_ns : 0.5;
    if (forward_ns) times.forward_ns = *forward_ns;
    if (backward_ns) times.backward_ns = *backward_ns;
    if (backward_ns) times.weight_grad_ns = share * times.backward_ns;
    if (weight_grad_ns) times.weight_grad_ns = *weight_grad_ns;
    const double factor = scale.value_or(1);
    times = {times.forward_ns * factor, times.backward_ns * factor, times.weight_grad_ns * factor};
    const auto kind = spread ? (*spread == 0 ? host::Spread::Lognormal : host::Spread::Normal) : old.spread();
    const char* key = scale ? "scale" : weight_grad_ns ? "weight-grad" : "backward";
    return located(table, key, [&] { return host::DurationModel(times, sigma.value_or(old.sigma()), kind); });
  }
};

void read_chunks(TomlReader& file, sim::Scenario& scenario) {
  std::set<std::uint64_t> seen;
  for (TomlReader& table : file.tables("chunks")) {
    const auto chunk = table.whole("chunk", 0, scenario.pipeline.chunks() - 1);
    if (!chunk) table.missing("chunk");
    if (!seen.insert(*chunk).second) table.refuse("chunk", fmt::format("chunk {} is given twice", *chunk));
    scenario.times[*chunk] = GivenTimes(table).over(table, scenario.times[*chunk]);
    table.finish();
  }
}

TraceTimes read_trace(const TomlReader& file, TomlReader& table) {
  TraceTimes trace{*table.text("trace"), table.line("trace")};
  for (const char* key : {"forward", "backward", "weight-grad", "scale", "sigma", "spread"}) {
    if (table.has(key)) table.refuse(key, "has no meaning beside trace");
  }
  for (const char* key : {"chunks", "sizes"}) {
    if (file.has(key)) file.refuse(key, "has no meaning beside times.trace");
  }
  table.finish();
  return trace;
}

/// @returns where the times come from, if they stand elsewhere
std::optional<TraceTimes> read_times(TomlReader& file, sim::Scenario& scenario) {
  auto table = file.table("times");
  if (!table) file.missing("times");
  if (table->has("trace")) return read_trace(file, *table);
  const GivenTimes given(*table);
  if (!given.forward_ns) table->missing("forward");
  if (!given.backward_ns) table->missing("backward");
  const host::DurationModel stage = given.over(*table, host::DurationModel(host::DurationModel::Times{}));
  table->finish();
  const Pipeline& pipeline = scenario.pipeline;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const auto beside = pipeline.chunks_of(pipeline.stage_of(static_cast<Chunk>(chunk))).size();
    scenario.times[chunk] = stage.per_chunk(static_cast<std::uint32_t>(beside));
  }
  read_chunks(file, scenario);
  return std::nullopt;
}

void read_sizes(TomlReader& file, sim::Scenario& scenario) {
  std::set<Chunk> seen;
  for (TomlReader& table : file.tables("sizes")) {
    sim::SizeFactor size;
    const std::size_t chunks = scenario.pipeline.chunks();
    const auto named = table.wholes("chunks", 0, chunks - 1, chunks);
    if (!named || named->empty()) table.missing("chunks");
    for (const std::uint64_t chunk : *named) {
      if (!seen.insert(static_cast<Chunk>(chunk)).second)
        table.refuse("chunks", fmt::format("chunk {} has a size already", chunk));
      size.chunks.push_back(static_cast<Chunk>(chunk));
    }
    size.sigma = table.number("sigma", 0, host::DurationModel::kMaxSigma).value_or(0);
    const std::size_t microbatches = scenario.pipeline.microbatches();
    size.factors = table.numbers("factors", 1e-6, host::DurationModel::kLargestSize, microbatches)
                       .value_or(std::vector<double>{});
    if (table.has("factors") && size.factors.size() != microbatches) {
      table.refuse("factors",
                   fmt::format("has {} entries for {} microbatches", size.factors.size(), microbatches));
    }
    if (table.has("factors") == table.has("sigma"))
      table.refuse("sigma", "a size has either sigma or factors");
    table.finish();
    scenario.sizes.push_back(std::move(size));
  }
}

void read_link(TomlReader& table, sim::Link& link) {
  if (const auto ns = table.nanoseconds("latency")) link.latency = Duration(std::llround(*ns));
  if (const auto bandwidth = table.number("bandwidth", 0, kLargestBandwidth)) link.bandwidth = *bandwidth;
  if (const auto bytes = table.whole("bytes", 0, kMostBytes)) link.bytes = *bytes;
  if (link.wire_ns() > std::chrono::duration<double, std::nano>(kLongestTime).count()) {
    table.refuse(table.has("bandwidth") ? "bandwidth" : "bytes",
                 fmt::format("makes a message of {} bytes take more than 10 minutes", link.bytes));
  }
  if (const auto jitter = table.text("jitter"))
    link.jitter = located(table, "jitter", [&] { return host::DelayModel::parse(*jitter); });
}

void read_links(TomlReader& file, sim::Scenario& scenario) {
  if (auto table = file.table("link")) {
    sim::Link link;
    read_link(*table, link);
    table->finish();
    std::fill(scenario.links.begin(), scenario.links.end(), link);
  }
  std::set<std::size_t> seen;
  for (TomlReader& table : file.tables("links")) {
    if (!table.has("edge")) table.missing("edge");
    const auto ends = table.wholes("edge", 0, kMostChunks, 2);
    if (ends->size() != 2) table.refuse("edge", "must be two chunks such as [0, 1]");
    const Edge edge{static_cast<Chunk>((*ends)[0]), static_cast<Chunk>((*ends)[1])};
    const auto edges = scenario.pipeline.edges();
    const auto at = std::find(edges.begin(), edges.end(), edge);
    if (at == edges.end())
      table.refuse("edge", fmt::format("the pipeline has no edge {} -> {}", edge.from, edge.to));
    const auto number = static_cast<std::size_t>(at - edges.begin());
    if (!seen.insert(number).second)
      table.refuse("edge", fmt::format("edge {} -> {} is given twice", edge.from, edge.to));
    read_link(table, scenario.links[number]);
    table.finish();
  }
}

void read_group(TomlReader& file, sim::Scenario& scenario) {
  auto table = file.table("group");
  if (!table) return;
  scenario.group.size = needed(*table, "size", sim::Scenario::kLargestGroup);
  if (const auto rule = table->one_of("rule", {"common", "first-pick"}))
    scenario.group.rule = *rule == 0 ? sim::GroupRule::CommonCandidate : sim::GroupRule::FirstPick;
  if (const auto form = table->one_of("agreement", {"leader", "first-pick", "bitmap"})) {
    if (table->has("rule")) table->refuse("rule", "has no meaning beside agreement");
    scenario.group.form = agree::kForms[*form];
  }
  if (const auto ns = table->nanoseconds("latency")) scenario.group.latency = Duration(std::llround(*ns));
  if (const auto skew = table->text("skew"))
    scenario.skew = located(*table, "skew", [&] { return parse_skew("skew", *skew); });
  table->finish();
}

void read_overhead(TomlReader& file, sim::Scenario& scenario) {
  auto table = file.table("overhead");
  if (!table) return;
  if (const auto ns = table->nanoseconds("task")) scenario.overhead.task = Duration(std::llround(*ns));
  if (const auto ns = table->nanoseconds("hop")) scenario.overhead.hop = Duration(std::llround(*ns));
  table->finish();
}

void read_limit(TomlReader& file, sim::Scenario& scenario) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() / 2;
  if (!file.has("limit")) return;
  scenario.limit_given = true;
  if (!file.is_list("limit")) {
    const auto limit = file.whole("limit", 1, most);
    std::fill(scenario.limits.begin(), scenario.limits.end(), static_cast<std::uint32_t>(*limit));
    return;
  }
  const auto limits = file.wholes("limit", 1, most, scenario.limits.size());
  if (limits->size() != scenario.limits.size())
    file.refuse("limit", fmt::format("has {} entries for {} stages", limits->size(), scenario.limits.size()));
  scenario.limits.assign(limits->begin(), limits->end());
}

void read_settings(TomlReader& file, sim::Scenario& scenario) {
  scenario.name = file.text("name").value_or("");
  read_limit(file, scenario);
  const std::string rules = file.text("rules").value_or("default");
  const std::string accumulate = file.text("accumulate").value_or("order");
  scenario.rules = located(file, file.has("rules") ? "rules" : "accumulate",
                           [&] { return parse_rules(rules, accumulate, file.has("accumulate")); });
  if (const auto depth = file.whole("launch-ahead", 1, 64))
    scenario.depth = static_cast<std::uint32_t>(*depth);
  if (const auto replicas = file.whole("replicas", 1, sim::Scenario::kMostReplicas))
    scenario.replicas = static_cast<std::uint32_t>(*replicas);
  if (const auto seed = file.whole("seed", 0, std::numeric_limits<std::int64_t>::max()))
    scenario.seed = *seed;
  if (file.one_of("jitter-average", {"measured", "nominal"}) == std::size_t{1})
    scenario.nominal_compute = nominal_compute(scenario.times);
}

/// Says where in the file the field at fault stands.
void validate(TomlReader& file, const sim::Scenario& scenario) {
  try {
    scenario.validate();
  } catch (const ConfigError& error) {
    const auto group = file.table("group");
    if (group && error.field() == "group-rule") group->refuse("rule", reason_of(error));
    if (group && error.field() == "agreement") group->refuse("agreement", reason_of(error));
    if (file.has(error.field())) file.refuse(error.field(), reason_of(error));
    throw;
  }
}

/// Loads the recording and gives its times to the scenario.
void load_trace(const std::filesystem::path& folder, const TraceTimes& trace, sim::Scenario& scenario) {
  try {
    const TraceInput input = TraceInput::parse((folder / trace.input).string());
    const trace::Recording recording = load_recording(input.path);
    use_recorded_times(scenario, select_run(recording, input), recorded_share(recording));
    if (scenario.nominal_compute) scenario.nominal_compute = nominal_compute(scenario.times);
  } catch (const ConfigError& error) {
    throw ConfigError("times.trace", fmt::format("{} (line {})", error.what(), trace.line));
  }
}

}  // namespace

sim::Skew parse_skew(const std::string& field, std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos || (kind != "exponential" && kind != "uniform")) {
    throw ConfigError(field, fmt::format("{} is not exponential:MEAN or uniform:MEAN", in_quotes(text)));
  }
  return {kind == "uniform" ? sim::Skew::Kind::Uniform : sim::Skew::Kind::Exponential,
          parse_duration(field, text.substr(colon + 1))};
}

Duration nominal_compute(const std::vector<host::DurationModel>& times) {
  Duration::rep sum = 0;
  for (const host::DurationModel& chunk : times) sum += (chunk.forward() + chunk.backward()).count();
  return Duration(sum / (2 * static_cast<Duration::rep>(times.size())));
}

ScenarioFile parse_scenario(std::string_view text, const std::string& source) {
  const toml::table table = parse_toml(text, source);
  TomlReader file(table, "");
  ScenarioFile result{sim::Scenario(read_pipeline(file)), {}, {}, {}};
  result.trace = read_times(file, result.scenario);
  read_sizes(file, result.scenario);
  read_links(file, result.scenario);
  read_group(file, result.scenario);
  read_overhead(file, result.scenario);
  read_settings(file, result.scenario);
  result.methods = file.texts("methods", 1000);
  result.seeds = file.whole("seeds", 1, kMostSeeds);
  // Where the scenario comes from: for `reproduce`.
  (void)file.table("published");
  (void)file.table("fit");
  file.finish();
  validate(file, result.scenario);
  return result;
}

ScenarioFile read_scenario(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw ConfigError("scenario", path + " is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError("scenario", "cannot read " + path);
  std::string text;
  char block[1U << 16U];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLongestFile) throw ConfigError("scenario", path + " has more than 64 MiB");
  }
  if (file.bad()) throw ConfigError("scenario", "cannot read " + path);
  ScenarioFile result = parse_scenario(text, path);
  if (result.trace) load_trace(std::filesystem::path(path).parent_path(), *result.trace, result.scenario);
  return result;
}

}  // namespace sluice::tools
