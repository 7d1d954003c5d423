#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "command/trace_commands.hpp"
#include "option/options.hpp"
#include "option/trace_input.hpp"
#include "report/trace_report.hpp"
#include "sluice/error.hpp"
#include "sluice/trace/run_diff.hpp"
#include "sluice/trace/timeline.hpp"

namespace sluice::tools {
namespace {

using nlohmann::json;

struct DiffOptions {
  std::string a;
  std::string b;
  std::uint32_t top = 10;
  std::string json;
};

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// A part of both totals, as a mean over the stages.
struct Part {
  std::string name;
  double a_s = 0;
  double b_s = 0;
};

/// Adds up what the stages of one run say.
class Parts {
 public:
  explicit Parts(const Pipeline& pipeline) : pipeline_(pipeline) {}

  void add(const std::vector<trace::StageTime>& stages, double Part::*side) {
    for (const trace::StageTime& stage : stages) {
      const auto put = [&](const std::string& name, Duration time) {
        Part& part = parts_[name];
        part.*side += seconds(time) / static_cast<double>(stages.size());
      };
      put("compute", stage.compute);
      for (const auto& [key, waited] : stage.messages)
        put(trace::edge_name(pipeline_, key.first, key.second), waited);
      put("limit", stage.limit);
      put("order", stage.order);
      put("agreement", stage.agreement);
      put("start", stage.start);
      put("idle at the end", stage.idle);
    }
  }

  /// Those that differ most first.
  [[nodiscard]] std::vector<Part> sorted() const {
    std::vector<Part> parts;
    for (const auto& [name, part] : parts_) parts.push_back({name, part.a_s, part.b_s});
    std::stable_sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) {
      return std::abs(x.b_s - x.a_s) > std::abs(y.b_s - y.a_s);
    });
    return parts;
  }

 private:
  const Pipeline& pipeline_;
  std::map<std::string, Part> parts_;
};

std::string name_of(const trace::TaskDifference& each) {
  return fmt::format("{}{} chunk {}, iteration {}", letter(each.task.pass), each.task.microbatch,
                     each.task.chunk, each.iteration);
}

json to_json(const trace::RunDiff& diff, const std::vector<Part>& parts, const Pipeline& pipeline) {
  json where = json::array();
  for (const Part& part : parts)
    where.push_back(
        {{"part", part.name}, {"a_s", part.a_s}, {"b_s", part.b_s}, {"difference_s", part.b_s - part.a_s}});
  json stages = json::array();
  for (std::size_t i = 0; i < diff.stages_a.size(); ++i) {
    stages.push_back(
        {{"a", parts_json(diff.stages_a[i], pipeline)}, {"b", parts_json(diff.stages_b[i], pipeline)}});
  }
  json tasks = json::array();
  for (const trace::TaskDifference& each : diff.tasks) {
    tasks.push_back({{"pass", std::string(1, letter(each.task.pass))},
                     {"chunk", each.task.chunk},
                     {"microbatch", each.task.microbatch},
                     {"iteration", each.iteration},
                     {"stage", each.stage},
                     {"took_a_s", seconds(each.took_a)},
                     {"took_b_s", seconds(each.took_b)},
                     {"waited_a_s", seconds(each.waited_a)},
                     {"waited_b_s", seconds(each.waited_b)},
                     {"difference_s", seconds(each.difference())}});
  }
  return {{"iterations", diff.iterations},
          {"total_a_s", seconds(diff.total_a)},
          {"total_b_s", seconds(diff.total_b)},
          {"difference_s", seconds(diff.total_b - diff.total_a)},
          {"parts", where},
          {"per_stage", stages},
          {"tasks", tasks}};
}

void print(const trace::RunDiff& diff, const std::vector<Part>& parts, const std::string& a,
           const std::string& b) {
  fmt::print("{} iterations: {} {:.1f} ms, {} {:.1f} ms, difference {:+.1f} ms ({:.2f}x)\n\n",
             diff.iterations.size(), a, 1e3 * seconds(diff.total_a), b, 1e3 * seconds(diff.total_b),
             1e3 * seconds(diff.total_b - diff.total_a), seconds(diff.total_a) / seconds(diff.total_b));
  const std::size_t width = std::max({a.size(), b.size(), std::size_t{12}});
  fmt::print("{:<26}  {:>{}}  {:>{}}  {:>12}\n", "where, mean over stages", a, width, b, width, "difference");
  for (const Part& part : parts) {
    if (part.a_s == 0 && part.b_s == 0) continue;
    fmt::print("{:<26}  {:>{}.1f} ms  {:>{}.1f} ms  {:>+9.1f} ms\n", part.name, 1e3 * part.a_s, width - 3,
               1e3 * part.b_s, width - 3, 1e3 * (part.b_s - part.a_s));
  }
  fmt::print("\n{:<32}  {:>5}  {:>21}  {:>21}  {:>12}\n", "tasks that differ most", "stage", "waited before",
             "took", "difference");
  for (const trace::TaskDifference& each : diff.tasks) {
    fmt::print("{:<32}  {:>5}  {:>7.1f} -> {:>7.1f} ms  {:>7.1f} -> {:>7.1f} ms  {:>+9.1f} ms\n",
               name_of(each), each.stage, 1e3 * seconds(each.waited_a), 1e3 * seconds(each.waited_b),
               1e3 * seconds(each.took_a), 1e3 * seconds(each.took_b), 1e3 * seconds(each.difference()));
  }
}

/// What to call the two runs: by their methods, or where those are alike by their files too.
std::pair<std::string, std::string> names_of(const TraceInput& input_a, const trace::RecordedRun& a,
                                             const TraceInput& input_b, const trace::RecordedRun& b) {
  if (a.method != b.method) return {a.method, b.method};
  return {input_a.path + "#" + a.method, input_b.path + "#" + b.method};
}

void run_diff(const DiffOptions& options) {
  check_json_path(options.json);
  const TraceInput input_a = TraceInput::parse(options.a);
  const TraceInput input_b = TraceInput::parse(options.b);
  const trace::Recording recording_a = load_recording(input_a.path);
  const trace::Recording recording_b = load_recording(input_b.path);
  const trace::RecordedRun& a = select_run(recording_a, input_a);
  const trace::RecordedRun& b = select_run(recording_b, input_b);
  const trace::RunDiff diff = trace::diff_runs(a, b, options.top);
  Parts parts(a.pipeline);
  parts.add(diff.stages_a, &Part::a_s);
  parts.add(diff.stages_b, &Part::b_s);
  const auto [name_a, name_b] = names_of(input_a, a, input_b, b);
  print(diff, parts.sorted(), name_a, name_b);
  write_json(options.json, to_json(diff, parts.sorted(), a.pipeline));
}

}  // namespace

void add_trace_diff(CLI::App& trace) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = trace.add_subcommand(
      "diff", "Two runs of one pipeline, task by task: where the difference of their times lies");
  command->add_option("a", options->a, "Recording, FILE or FILE#METHOD")->required();
  command->add_option("b", options->b, "The one to compare it with")->required();
  command->add_option("--top", options->top, "Tasks to list")->capture_default_str();
  command->add_option("--json", options->json, "Write the results as JSON");
  command->footer(
      "The parts of each run add up to its time, so their differences add up to the difference of the "
      "times.\n"
      "Example: sluice trace diff 'run.json#1f1b' 'run.json#bf'");
  command->callback([options, command] {
    refuse_empty_values(*command);
    run_diff(*options);
  });
}

}  // namespace sluice::tools
