#include "run/scheduled_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/schedule_csv.hpp"
#include "sluice/seconds.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::tools {
namespace {

constexpr std::uint32_t kDefaultStages = 4;
constexpr std::uint32_t kDefaultMicrobatches = 8;

bool is_named(const std::string& source) {
  const auto names = Schedule::names();
  return std::find(names.begin(), names.end(), source) != names.end();
}

Pipeline pipeline_for(const std::string& name, const ScheduleSizes& sizes) {
  const std::uint32_t stages = sizes.stages.value_or(kDefaultStages);
  const std::uint32_t microbatches = sizes.microbatches.value_or(kDefaultMicrobatches);
  if (Schedule::placement(name) == Placement::V) {
    if (sizes.chunks_per_stage.value_or(2) != 2)
      throw ConfigError("chunks-per-stage", fmt::format("{} has 2 chunks on each stage", name));
    return Pipeline::v_shape(stages, microbatches);
  }
  const bool loops = name == "interleaved" || name == "looped-bfs";
  return Pipeline::interleaved(stages, sizes.chunks_per_stage.value_or(loops ? 2 : 1), microbatches);
}

std::string read_file(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw ConfigError("schedule", fmt::format("'{}' is not a file that can be read, nor one of {}", path,
                                              fmt::join(Schedule::names(), ", ")));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What the command line says of a file is what the file says.
void check_sizes(const ScheduleSizes& sizes, const Pipeline& pipeline) {
  const auto check = [](const char* field, const std::optional<std::uint32_t>& given, std::uint32_t found) {
    if (given && *given != found)
      throw ConfigError(field, fmt::format("{}, but the file has {}", *given, found));
  };
  check("stages", sizes.stages, pipeline.stages());
  check("microbatches", sizes.microbatches, pipeline.microbatches());
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    const auto chunks = static_cast<std::uint32_t>(pipeline.chunks_of(stage).size());
    check("chunks-per-stage", sizes.chunks_per_stage, chunks);
  }
}

std::vector<sim::StageSetup> setups_of(const LoadedSchedule& loaded) {
  Rules rules;
  rules.ordered_accumulation = false;
  std::vector<sim::StageSetup> setups;
  for (Policy& policy : Policy::fixed(loaded.schedule, loaded.pipeline, rules)) {
    DispatcherConfig config;
    config.rank = config.stage = static_cast<StageId>(setups.size());
    config.rules = rules;
    // A schedule brings its own bound on what is in flight: the limit only has to be one a stage can have.
    config.limit = std::max<std::uint32_t>(
        config.limit, static_cast<std::uint32_t>(loaded.pipeline.chunks_of(config.stage).size()));
    setups.push_back({config, std::move(policy)});
  }
  return setups;
}

std::string label_of(const trace::TaskSpan& span) {
  const bool input_grad = span.task.pass == Pass::Backward && !span.whole;
  return fmt::format("{}{}{}", span.task.chunk, input_grad ? 'I' : letter(span.task.pass),
                     span.task.microbatch);
}

std::int64_t nanoseconds(double at_s) { return std::llround(at_s * 1e9); }

}  // namespace

LoadedSchedule load_schedule(const std::string& source, const ScheduleSizes& sizes) {
  if (is_named(source)) {
    Pipeline pipeline = pipeline_for(source, sizes);
    Schedule schedule = Schedule::named(source, pipeline);
    return {std::move(schedule), std::move(pipeline), {}};
  }
  ScheduleFile file = parse_schedule_csv(read_file(source), std::filesystem::path(source).stem().string());
  Pipeline pipeline = file.pipeline();
  check_sizes(sizes, pipeline);
  return {std::move(file.schedule), std::move(pipeline), std::move(file.columns)};
}

double ScheduledRun::bubble_fraction() const {
  double busy = 0;
  for (const ScheduledStage& stage : stages) busy += seconds(stage.busy);
  return 1 - busy / (static_cast<double>(stages.size()) * seconds(makespan));
}

ScheduledRun run_schedule(const LoadedSchedule& loaded, const host::DurationModel& times) {
  const Pipeline& pipeline = loaded.pipeline;
  sim::Surroundings surroundings;
  surroundings.task_time = [&](const Launch& launch) {
    const std::size_t chunks = pipeline.chunks_of(pipeline.stage_of(launch.task.chunk)).size();
    return times.draw(1, launch.iteration, launch.task, launch.whole, static_cast<std::uint32_t>(chunks));
  };
  sim::World world(pipeline, setups_of(loaded), surroundings);
  world.keep_runs();
  ScheduledRun run;
  run.makespan = world.run({0, IterationKind::Training});
  run.timeline.name = loaded.schedule.name();
  run.timeline.stages = pipeline.stages();
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
    ScheduledStage& each = run.stages.emplace_back();
    each.peak_in_flight = loaded.schedule.peak_in_flight(pipeline, stage);
    for (const Done& done : world.ran(stage)) {
      ++each.tasks;
      each.busy += done.ended - done.started;
      run.timeline.spans.push_back(
          {done.task, 0, stage, done.whole, seconds(done.started), seconds(done.ended)});
    }
  }
  return run;
}

std::string draw_grid(const ScheduledRun& run, std::size_t width) {
  std::int64_t unit = run.makespan.count();
  std::size_t longest = 0;
  for (const trace::TaskSpan& span : run.timeline.spans) {
    unit = std::gcd(std::gcd(unit, nanoseconds(span.start_s)), nanoseconds(span.end_s));
    longest = std::max(longest, label_of(span).size());
  }
  const std::size_t cell = longest + 1;
  const auto columns = static_cast<std::size_t>(run.makespan.count() / unit);
  const std::string margin = fmt::format("rank {}  ", run.stages.size() - 1);
  if (columns > width || margin.size() + columns * cell > width) return {};
  std::vector<std::string> lines;
  for (std::size_t stage = 0; stage < run.stages.size(); ++stage) {
    lines.push_back(fmt::format("{:<{}}", fmt::format("rank {}", stage), margin.size()));
    for (std::size_t column = 0; column < columns; ++column) lines.back() += fmt::format("{:<{}}", ".", cell);
  }
  for (const trace::TaskSpan& span : run.timeline.spans) {
    const auto from = static_cast<std::size_t>(nanoseconds(span.start_s) / unit);
    const auto to = static_cast<std::size_t>(nanoseconds(span.end_s) / unit);
    lines[span.stage].replace(margin.size() + from * cell, (to - from) * cell,
                              fmt::format("{:<{}}", label_of(span), (to - from) * cell));
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace sluice::tools
