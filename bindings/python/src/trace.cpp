#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"
#include "columns.hpp"
#include "method_argument.hpp"
#include "notebook.hpp"
#include "option/trace_input.hpp"
#include "recorded_trace.hpp"
#include "report/trace_difference.hpp"
#include "report/trace_summary.hpp"
#include "run/what_if.hpp"
#include "sluice/error.hpp"
#include "sluice/seconds.hpp"
#include "sluice/trace/output_file.hpp"
#include "sluice/trace/recorded_export.hpp"
#include "sluice/trace/recording_json.hpp"
#include "sluice/trace/timeline_html.hpp"
#include "sluice/trace/timeline_svg.hpp"

namespace sluice::python {
namespace {

using trace::RecordedIteration;
using trace::RecordedMessage;
using trace::RecordedRun;
using trace::RecordedTask;

py::object to_python(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return py::module_::import("json").attr("loads")(text);
}

std::vector<RecordedTrace> traces_of(trace::Recording recording) {
  const auto shared = std::make_shared<const trace::Recording>(std::move(recording));
  std::vector<RecordedTrace> traces;
  for (std::size_t index = 0; index < shared->runs.size(); ++index) traces.emplace_back(shared, index);
  return traces;
}

std::vector<RecordedTrace> load_all(const std::filesystem::path& path) {
  return traces_of(tools::load_recording(path.string()));
}

RecordedTrace load(const std::filesystem::path& path, const std::optional<std::string>& method) {
  tools::TraceInput input = tools::TraceInput::parse(path.string());
  if (method) input = {path.string(), *method};
  trace::Recording recording = tools::load_recording(input.path);
  RecordedRun run = tools::select_run(recording, input);
  recording.runs = {std::move(run)};
  return traces_of(std::move(recording)).front();
}

void save_all(const std::vector<RecordedTrace>& traces, const std::filesystem::path& path) {
  if (traces.empty()) throw ConfigError("traces", "give at least one");
  trace::check_writable("path", path);
  trace::Recording recording{traces.front().recording().settings, {}};
  for (const RecordedTrace& each : traces) recording.runs.push_back(each.run());
  trace::write_file_atomically(path, trace::write_recording(recording));
}

py::dict iterations(const RecordedTrace& self) {
  const auto& all = self.run().iterations;
  py::dict columns;
  columns["iteration"] =
      column_of<std::int64_t>(all, [](const RecordedIteration& e) { return e.iteration.index; });
  columns["start"] = column_of<double>(all, [](const RecordedIteration& e) { return seconds(e.start); });
  columns["end"] = column_of<double>(all, [](const RecordedIteration& e) { return seconds(e.end); });
  return columns;
}

py::dict tasks(const RecordedTrace& self) {
  const auto& all = self.run().tasks;
  py::dict columns;
  columns["iteration"] = column_of<std::int64_t>(all, [](const RecordedTask& e) { return e.iteration; });
  columns["stage"] = column_of<std::int64_t>(all, [](const RecordedTask& e) { return e.stage; });
  columns["pass"] = letters_of(all, [](const RecordedTask& e) { return e.task.pass; });
  columns["chunk"] = column_of<std::int64_t>(all, [](const RecordedTask& e) { return e.task.chunk; });
  columns["microbatch"] =
      column_of<std::int64_t>(all, [](const RecordedTask& e) { return e.task.microbatch; });
  columns["whole"] = column_of<std::uint8_t>(all, [](const RecordedTask& e) { return e.whole; });
  columns["start"] = column_of<double>(all, [](const RecordedTask& e) { return seconds(e.start); });
  columns["end"] = column_of<double>(all, [](const RecordedTask& e) { return seconds(e.end); });
  columns["noticed"] = column_of<double>(all, [](const RecordedTask& e) { return seconds(e.noticed); });
  return columns;
}

py::dict messages(const RecordedTrace& self) {
  const auto& all = self.run().messages;
  const Pipeline& pipeline = self.run().pipeline;
  const auto time = [&all](Time RecordedMessage::*at) {
    return column_of<double>(all, [at](const RecordedMessage& e) { return seconds(e.*at); });
  };
  py::list directions;
  for (const RecordedMessage& each : all)
    directions.append(each.id.direction == Direction::Activation ? "activation" : "gradient");
  py::dict columns;
  columns["iteration"] =
      column_of<std::int64_t>(all, [](const RecordedMessage& e) { return e.id.iteration; });
  columns["edge"] = column_of<std::int64_t>(all, [](const RecordedMessage& e) { return e.id.edge; });
  columns["direction"] = directions;
  columns["microbatch"] =
      column_of<std::int64_t>(all, [](const RecordedMessage& e) { return e.id.microbatch; });
  columns["sender"] =
      column_of<std::int64_t>(all, [&](const RecordedMessage& e) { return trace::sender(pipeline, e.id); });
  columns["receiver"] =
      column_of<std::int64_t>(all, [&](const RecordedMessage& e) { return trace::receiver(pipeline, e.id); });
  columns["sent"] = time(&RecordedMessage::sent);
  columns["offered"] = time(&RecordedMessage::offered);
  columns["accepted"] = time(&RecordedMessage::accepted);
  columns["arrived"] = time(&RecordedMessage::arrived);
  return columns;
}

py::object summary(const RecordedTrace& self) {
  return to_python(tools::TraceSummary(self.recording(), self.run()).to_json());
}

py::object diff(const RecordedTrace& self, const RecordedTrace& other, std::int64_t top) {
  const trace::RunDiff found = trace::diff_runs(self.run(), other.run(), whole("top", top, 0));
  return to_python(tools::diff_json(found, tools::parts_of(found, self.run().pipeline), self.run().pipeline));
}

tools::MethodSettings settings_of(const RecordedRun& run, const std::optional<LimitArgument>& limit,
                                  const std::optional<std::string>& rule_set,
                                  const std::optional<std::string>& accumulate) {
  tools::MethodSettings settings{run.limits, limit.has_value(), run.rules};
  if (limit) settings.limits = limits(*limit, run.pipeline);
  if (rule_set || accumulate) settings.rules = rules(rule_set.value_or("default"), accumulate);
  return settings;
}

std::vector<tools::Prediction> what_if(const RecordedTrace& self, const std::vector<MethodArgument>& methods,
                                       const std::optional<LimitArgument>& limit,
                                       const std::optional<std::string>& rule_set,
                                       const std::optional<std::string>& accumulate,
                                       const std::optional<double>& weight_grad_share) {
  if (weight_grad_share && !(*weight_grad_share >= 0 && *weight_grad_share <= 1))
    throw ConfigError("weight_grad_share", "must lie in 0 to 1");
  const py::gil_scoped_release released;
  const RecordedRun& run = self.run();
  const tools::RecordedTimes times(run, weight_grad_share.value_or(tools::recorded_share(self.recording())));
  const tools::MethodSettings settings = settings_of(run, limit, rule_set, accumulate);
  std::vector<tools::Prediction> predictions;
  predictions.reserve(methods.size());
  for (const MethodArgument& each : methods)
    predictions.push_back(
        tools::predict(run, times, make_method(each, run.pipeline.with_split(false), settings)));
  return predictions;
}

std::string svg(const RecordedTrace& self) {
  return trace::timeline_svg(std::array{trace::timeline_of(self.run())});
}

std::string html(const RecordedTrace& self) {
  return trace::timeline_html(std::array{trace::timeline_of(self.run())});
}

std::string text(const RecordedTrace& self) {
  return fmt::format("<sluice.Trace {}: {} stages, {} iterations, {:.6g} s>", self.run().method,
                     self.run().pipeline.stages(), self.run().iterations.size(),
                     tools::total_seconds(self.run()));
}

std::span<const RecordedRun> alone(const RecordedTrace& self) { return {&self.run(), 1}; }

void bind_prediction(py::module_& module) {
  using tools::Prediction;
  py::class_<Prediction>(module, "Prediction", "A run of one method on recorded times.")
      .def_readonly("method", &Prediction::method, "Its name.")
      .def_property_readonly("total", &Prediction::total_seconds, "Seconds of all iterations.")
      .def_readonly("iterations", &Prediction::iteration_seconds, "Seconds of each recorded iteration.")
      .def_readonly("bubble", &Prediction::bubble_fraction, "Share of stages * time without work, 0 to 1.")
      .def_readonly("peak_in_flight", &Prediction::peak_in_flight,
                    "Most (chunk, microbatch) pairs, by stage.")
      .def("__repr__", [](const Prediction& self) {
        return fmt::format("<sluice.Prediction {}: {:.6g} s, bubble {:.3f}>", self.method,
                           self.total_seconds(), self.bubble_fraction);
      });
}

using TraceClass = py::class_<RecordedTrace>;

void add_files(TraceClass& type) {
  type.def_static("load", &load, py::arg("path"), py::arg("method") = py::none(),
                  R"(Reads a recording of `--record`, or of `save`.

path: the file, or as text FILE#METHOD. method: which of its runs, by default the first.
Raises ConfigError naming the file and the entry at fault.)");
  type.def_static("load_all", &load_all, py::arg("path"), "All runs of a recording.");
  type.def_static("save_all", &save_all, py::arg("traces"), py::arg("path"),
                  "Writes several runs to one file. Raises ConfigError or Error.");
  type.def(
      "save", [](const RecordedTrace& self, const std::filesystem::path& path) { save_all({self}, path); },
      py::arg("path"), "Writes the run to a file, in one step. Raises ConfigError or Error.");
}

void add_data(TraceClass& type) {
  type.def_property_readonly(
          "method", [](const RecordedTrace& self) { return self.run().method; }, "What ran.")
      .def_property_readonly(
          "pipeline", [](const RecordedTrace& self) { return self.run().pipeline; },
          "As it ran: split or not.")
      .def_property_readonly(
          "limits", [](const RecordedTrace& self) { return self.run().limits; },
          "Most microbatches in flight, by stage.")
      .def_property_readonly(
          "launch_ahead", [](const RecordedTrace& self) { return self.run().launch_ahead; },
          "Tasks a device held at once.")
      .def_property_readonly(
          "lost", [](const RecordedTrace& self) { return self.run().lost; }, "Events that could not be kept.")
      .def_property_readonly(
          "total", [](const RecordedTrace& self) { return tools::total_seconds(self.run()); },
          "Seconds of all iterations.")
      .def_property_readonly("iterations", &iterations,
                             "Columns, a row an iteration: iteration, start, end (seconds).")
      .def_property_readonly("tasks", &tasks, R"(Columns, a row a task that ran.

iteration, stage, pass ('F', 'B', 'W'), chunk, microbatch, whole (1: the weight gradient is part of the
backward), start, end, noticed (seconds since the first iteration's start).)")
      .def_property_readonly("messages", &messages, R"(Columns, a row a message.

iteration, edge, direction ('activation', 'gradient'), microbatch, sender, receiver (stages), sent, offered,
accepted, arrived (seconds).)");
}

void add_answers(TraceClass& type) {
  type.def("summary", &summary, "Where each stage's time went, as `sluice trace summary --json` writes it.")
      .def("diff", &diff, py::arg("other"), py::arg("top") = 10,
           R"(This run and another of the same pipeline, as `sluice trace diff --json` writes it.

top: tasks to list. Raises ConfigError naming `pipeline` or `iterations` if they cannot be compared.)")
      .def("what_if", &what_if, py::arg("methods"), py::kw_only(), py::arg("limit") = py::none(),
           py::arg("rules") = py::none(), py::arg("accumulate") = py::none(),
           py::arg("weight_grad_share") = py::none(),
           R"(What the recorded tasks and messages would have given under other methods.

methods: names, Hints or Schedules. limit, rules, accumulate: as for `simulate`, by default as recorded.
weight_grad_share: part of a whole backward that can be split off, 0 to 1, where the recording does not tell.
Raises ConfigError if the run is not complete or a method does not fit its pipeline.)")
      .def("timeline_svg", &svg, "A picture of the last iteration.")
      .def("timeline_html", &html, "A page of all iterations, in one file.")
      .def(
          "chrome_trace", [](const RecordedTrace& self) { return trace::chrome_trace(alone(self)); },
          "JSON for ui.perfetto.dev.")
      .def(
          "to_csv", [](const RecordedTrace& self) { return trace::recorded_csv(alone(self)); },
          "Tasks and messages as comma-separated values, times in nanoseconds.")
      .def("__repr__", &text)
      .def("_repr_html_", [](const RecordedTrace& self) {
        return timeline_figure(std::array{trace::timeline_of(self.run())});
      });
}

}  // namespace

void bind_trace(py::module_& module) {
  bind_prediction(module);
  TraceClass type(module, "Trace", "One recorded run: what every stage did and saw.");
  add_files(type);
  add_data(type);
  add_answers(type);
}

}  // namespace sluice::python
