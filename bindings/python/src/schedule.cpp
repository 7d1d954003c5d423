#include "sluice/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/operators.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"
#include "method_argument.hpp"
#include "notebook.hpp"
#include "option/input_file.hpp"
#include "sluice/error.hpp"
#include "sluice/hint.hpp"
#include "sluice/schedule_csv.hpp"
#include "sluice/trace/output_file.hpp"

namespace sluice::python {
namespace {

using Made = std::shared_ptr<PipelineSchedule>;

StageId stage_index(std::int64_t stage, std::uint32_t stages) {
  if (stage < 0 || stage >= stages) throw py::index_error(fmt::format("there is no stage {}", stage));
  return static_cast<StageId>(stage);
}

Made made(Schedule schedule, Pipeline pipeline) {
  return std::make_shared<PipelineSchedule>(PipelineSchedule{std::move(schedule), std::move(pipeline), {}});
}

/// One of the generators.
auto maker(Schedule (*generate)(const Pipeline&)) {
  return [generate](const Pipeline& pipeline) {
    const py::gil_scoped_release released;
    check_size(pipeline);
    return made(generate(pipeline), pipeline);
  };
}

Made from_csv(const std::string& text, const std::string& name) {
  const py::gil_scoped_release released;
  ScheduleFile file = parse_schedule_csv(text, name);
  Pipeline pipeline = file.pipeline();
  return std::make_shared<PipelineSchedule>(
      PipelineSchedule{std::move(file.schedule), std::move(pipeline), std::move(file.columns)});
}

Made load(const std::filesystem::path& path) {
  return from_csv(tools::read_file("path", path.string()), path.stem().string());
}

void save(const PipelineSchedule& self, const std::filesystem::path& path) {
  trace::check_writable("path", path);
  trace::write_file_atomically(path, to_csv(self.schedule));
}

std::vector<std::tuple<StageId, std::size_t, std::string>> faults(const PipelineSchedule& self) {
  std::vector<std::tuple<StageId, std::size_t, std::string>> found;
  for (const ScheduleFault& fault : self.schedule.faults(self.pipeline))
    found.emplace_back(fault.rank, fault.position, fault.reason);
  return found;
}

/// Every forward and every half of a backward takes the same time.
std::string html(const PipelineSchedule& self) {
  constexpr double unit = 1e6;
  const host::DurationModel times({.forward_ns = unit, .backward_ns = 2 * unit, .weight_grad_ns = unit});
  const tools::ScheduledRun run = tools::run_schedule(self, times);
  return timeline_figure(std::array{run.timeline});
}

std::string text(const PipelineSchedule& self) {
  return fmt::format("<sluice.Schedule {}: {} stages, {} chunks, {} microbatches>", self.schedule.name(),
                     self.schedule.stages(), self.pipeline.chunks(), self.pipeline.microbatches());
}

using ScheduleClass = py::class_<PipelineSchedule, Made>;

void add_generators(ScheduleClass& type) {
  const auto add = [&type](const char* name, Schedule (*generate)(const Pipeline&), const char* doc) {
    type.def_static(name, maker(generate), py::arg("pipeline"), doc);
  };
  add("gpipe", &Schedule::gpipe, "All forwards, then all backwards (Huang et al., 2019). Any pipeline.");
  add("one_f_one_b", &Schedule::one_f_one_b,
      "One forward, one backward after a warm-up (Narayanan et al., 2019). One chunk a stage.");
  add("interleaved", &Schedule::interleaved,
      "Interleaved 1F1B (Narayanan et al., 2021). Chunk c on stage c mod stages.");
  add("looped_bfs", &Schedule::looped_bfs,
      "Breadth-first pipeline parallelism (Lamy-Poirier, 2023). Chunk c on stage c mod stages.");
  add("zb_h1", &Schedule::zb_h1, "ZB-H1 (Qi et al., 2023). One chunk a stage, split backward.");
  add("zb_v", &Schedule::zb_v, "ZB-V (Qi et al., 2024). V placement, split backward.");
  add("dualpipe_v", &Schedule::dualpipe_v,
      "DualPipeV (DeepSeek and Sea AI, 2025). V placement, at least two microbatches a stage.");
  type.def_static(
      "named",
      [](const std::string& name, const Pipeline& pipeline) {
        const py::gil_scoped_release released;
        check_size(pipeline);
        return made(Schedule::named(name, pipeline), pipeline);
      },
      py::arg("name"), py::arg("pipeline"),
      "The schedule of one of `names()`. Raises ConfigError naming `schedule` if the pipeline does not fit.");
  type.def_static(
      "names", [] { return std::vector<std::string>(Schedule::names().begin(), Schedule::names().end()); },
      "Names of all generators.");
}

void add_files(ScheduleClass& type) {
  type.def_static("from_csv", &from_csv, py::arg("text"), py::arg("name") = "csv",
                  R"(Reads the CSV notation of torch.distributed.pipelining (2.13).

A line is a rank, a cell an action such as 0F3, 1B2, 2I0 or 2W0. The pipeline follows from the text.
Raises ConfigError naming `schedule`, with line and column.)");
  type.def_static("load", &load, py::arg("path"), "Reads a file in that notation. Raises ConfigError.");
  type.def(
      "to_csv", [](const PipelineSchedule& self) { return to_csv(self.schedule); },
      "The schedule in that notation, without sends, receives and bubbles.");
  type.def("save", &save, py::arg("path"), "Writes it to a file, in one step. Raises ConfigError or Error.");
}

void add_members(ScheduleClass& type) {
  type.def(py::init([](const std::string& name, const std::vector<std::vector<Task>>& orders,
                       const Pipeline& pipeline) { return made(Schedule(name, orders), pipeline); }),
           py::arg("name"), py::arg("orders"), py::arg("pipeline"),
           "orders: the tasks of each stage, in the order in which it runs them. See `validate`.")
      .def_property_readonly(
          "name", [](const PipelineSchedule& self) { return self.schedule.name(); }, "Its name.")
      .def_property_readonly(
          "pipeline", [](const PipelineSchedule& self) { return self.pipeline; }, "What it was made for.")
      .def_property_readonly(
          "stages", [](const PipelineSchedule& self) { return self.schedule.stages(); }, "Number of stages.")
      .def(
          "order",
          [](const PipelineSchedule& self, std::int64_t stage) {
            const auto order = self.schedule.order(stage_index(stage, self.schedule.stages()));
            return std::vector<Task>(order.begin(), order.end());
          },
          py::arg("stage"), "The stage's tasks in order. Raises IndexError.")
      .def(
          "validate", [](const PipelineSchedule& self) { self.schedule.validate(self.pipeline); },
          py::call_guard<py::gil_scoped_release>(),
          "Raises ConfigError naming `schedule`, the rank and the position of the first fault.")
      .def("faults", &faults, "(rank, position, reason) of the first fault of each rank that has one.")
      .def(
          "peak_in_flight",
          [](const PipelineSchedule& self, std::int64_t stage) {
            return self.schedule.peak_in_flight(self.pipeline, stage_index(stage, self.schedule.stages()));
          },
          py::arg("stage"),
          "Most (chunk, microbatch) pairs between forward and last pass. Raises IndexError.")
      .def(
          "with_ordered_accumulation",
          [](const PipelineSchedule& self) {
            return made(self.schedule.with_ordered_accumulation(self.pipeline), self.pipeline);
          },
          "The same schedule with weight gradients in microbatch order. Raises ConfigError.")
      .def("__repr__", &text)
      .def("_repr_html_", &html);
}

/// The tasks of the classes in which a hint ranks the stage's tasks, in their order.
std::vector<std::vector<Task>> ranking(const NamedHint& self, const Pipeline& pipeline, std::int64_t stage) {
  check_size(pipeline);
  const StageId at = stage_index(stage, pipeline.stages());
  const Hint hint = self.schedule ? Hint::from_schedule(self.schedule->schedule, pipeline, at)
                                  : Hint::named(self.name, pipeline, at);
  std::vector<std::vector<Task>> classes;
  for (std::uint32_t cls = 0; cls < Hint::kClasses; ++cls) {
    if (hint.class_size(cls) == 0) continue;
    auto& tasks = classes.emplace_back();
    for (std::uint32_t rank = 0; rank < hint.class_size(cls); ++rank) tasks.push_back(hint.task(cls, rank));
  }
  return classes;
}

NamedHint named(const std::string& name) {
  const auto names = Hint::names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw ConfigError("hint", fmt::format("'{}' is not one of {}", name, fmt::join(names, ", ")));
  }
  return {name};
}

void bind_hint(py::module_& module) {
  py::class_<NamedHint>(module, "Hint", R"(Ranks the tasks that are ready; never a sequence to wait for.

'bf', 'fb': rounds of a backward and a forward, or the other way round. 'bfw': 'bf' with split backwards, a
weight gradient when neither is runnable. 'b-priority', 'f-priority': always that class first. 'pace':
what lags behind a steady pipeline first.)")
      .def(py::init(&named), py::arg("name"), "Raises ConfigError naming `hint` for an unknown name.")
      .def_static(
          "from_schedule",
          [](const Made& schedule) {
            return NamedHint{"hint:" + schedule->schedule.name(), schedule};
          },
          py::arg("schedule").none(false), "The order of a schedule as a ranking.")
      .def_static(
          "names", [] { return std::vector<std::string>(Hint::names().begin(), Hint::names().end()); },
          "Names of all hints.")
      .def_readonly("name", &NamedHint::name, "Its name.")
      .def_readonly("schedule", &NamedHint::schedule, "The schedule that it was made from, else None.")
      .def("ranking", &ranking, py::arg("pipeline"), py::arg("stage"),
           "The stage's tasks, best first, in up to three classes between which a round goes.")
      .def("__repr__", [](const NamedHint& self) { return fmt::format("<sluice.Hint {}>", self.name); });
}

}  // namespace

void bind_schedule(py::module_& module) {
  ScheduleClass type(module, "Schedule",
                     "A fixed order of tasks for each stage, and the pipeline it is for. Immutable.");
  add_members(type);
  add_generators(type);
  add_files(type);
  bind_hint(module);
}

}  // namespace sluice::python
