#include "simulated_run.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>

#include "bindings.hpp"
#include "columns.hpp"
#include "notebook.hpp"
#include "sluice/seconds.hpp"
#include "sluice/trace/chrome_trace.hpp"
#include "sluice/trace/timeline_html.hpp"
#include "sluice/trace/timeline_svg.hpp"

namespace sluice::python {
namespace {

using sim::StageReport;
using trace::TaskSpan;

/// Of the last draw.
double last_makespan(const SimulatedRun& self) { return self.figures.makespans.back(); }

double utilisation(const SimulatedRun& self, const StageReport& stage) {
  return last_makespan(self) > 0 ? seconds(stage.compute) / last_makespan(self) : 0;
}

py::dict stages(const SimulatedRun& self) {
  const auto& all = self.stages;
  py::dict columns;
  columns["compute"] = column_of<double>(all, [](const StageReport& e) { return seconds(e.compute); });
  columns["blocked"] = column_of<double>(all, [](const StageReport& e) { return seconds(e.blocked); });
  columns["agreement"] = column_of<double>(all, [](const StageReport& e) { return seconds(e.agreement); });
  columns["utilisation"] = column_of<double>(all, [&](const StageReport& e) { return utilisation(self, e); });
  columns["bubble"] = column_of<double>(all, [&](const StageReport& e) { return 1 - utilisation(self, e); });
  columns["peak_in_flight"] =
      column_of<std::int64_t>(all, [](const StageReport& e) { return e.peak_in_flight; });
  return columns;
}

py::dict tasks(const SimulatedRun& self) {
  const auto& all = self.timeline.spans;
  py::dict columns;
  columns["stage"] = column_of<std::int64_t>(all, [](const TaskSpan& e) { return e.stage; });
  columns["pass"] = letters_of(all, [](const TaskSpan& e) { return e.task.pass; });
  columns["chunk"] = column_of<std::int64_t>(all, [](const TaskSpan& e) { return e.task.chunk; });
  columns["microbatch"] = column_of<std::int64_t>(all, [](const TaskSpan& e) { return e.task.microbatch; });
  columns["whole"] = column_of<std::uint8_t>(all, [](const TaskSpan& e) { return e.whole; });
  columns["start"] = column_of<double>(all, [](const TaskSpan& e) { return e.start_s; });
  columns["end"] = column_of<double>(all, [](const TaskSpan& e) { return e.end_s; });
  return columns;
}

std::string text(const SimulatedRun& self) {
  return fmt::format("<sluice.SimulatedRun {}: makespan {:.6g} s, bubble {:.1f} %>", self.figures.name,
                     self.figures.median_makespan(), 100 * self.figures.bubble_fraction());
}

/// Of the run as it stands in Python: without a copy of it.
std::span<const trace::MethodTimeline> alone(const SimulatedRun& self) { return {&self.timeline, 1}; }

using RunClass = py::class_<SimulatedRun, std::shared_ptr<SimulatedRun>>;

void add_figures(RunClass& type) {
  type.def_property_readonly(
          "method", [](const SimulatedRun& self) { return self.figures.name; }, "Its name.")
      .def_readonly("pipeline", &SimulatedRun::pipeline, "As the method ran it: split or not.")
      .def_readonly("limits", &SimulatedRun::limits, "Most microbatches in flight, by stage.")
      .def_property_readonly(
          "makespan", [](const SimulatedRun& self) { return self.figures.median_makespan(); },
          "Seconds of an iteration, the median over the draws.")
      .def_property_readonly(
          "makespans", [](const SimulatedRun& self) { return column(self.figures.makespans); },
          "Seconds, by draw.")
      .def_property_readonly(
          "bounds", [](const SimulatedRun& self) { return column(self.figures.bounds); },
          "Seconds that no method can beat, by draw.")
      .def_property_readonly(
          "bound_ratio", [](const SimulatedRun& self) { return self.figures.bound_ratio(); },
          "Median of makespan / bound.")
      .def_property_readonly(
          "bubble", [](const SimulatedRun& self) { return self.figures.bubble_fraction(); },
          "Share of stages * time without work, 0 to 1, over all draws.")
      .def_property_readonly(
          "peak_in_flight", [](const SimulatedRun& self) { return self.figures.peak_in_flight; },
          "Most (chunk, microbatch) pairs a stage held, by stage, over all draws.");
}

void add_last_draw(RunClass& type) {
  type.def_property_readonly("stages", &stages, R"(Columns of the last draw, a row a stage.

compute, blocked, agreement: seconds; they add up to its makespan. utilisation, bubble: shares of it, 0 to 1.
peak_in_flight: (chunk, microbatch) pairs.)")
      .def_property_readonly("tasks", &tasks, R"(Columns of the last draw, a row a task.

stage, pass ('F', 'B', 'W'), chunk, microbatch, whole (1: the weight gradient is part of the backward), start,
end (seconds since the first one's start).)")
      .def_property_readonly(
          "trace", [](const SimulatedRun& self) { return self.recorded; },
          "The last draw, if `record` was asked for; else None.")
      .def(
          "timeline_svg", [](const SimulatedRun& self) { return trace::timeline_svg(alone(self)); },
          "A picture of the last draw.")
      .def(
          "timeline_html", [](const SimulatedRun& self) { return trace::timeline_html(alone(self)); },
          "An interactive page of the last draw, in one file.")
      .def(
          "chrome_trace", [](const SimulatedRun& self) { return trace::chrome_trace(alone(self)); },
          "JSON for ui.perfetto.dev.");
}

}  // namespace

void bind_simulated_run(py::module_& module) {
  RunClass type(module, "SimulatedRun", "What one method did in virtual time.");
  add_figures(type);
  add_last_draw(type);
  type.def("__repr__", &text).def("_repr_html_", [](const SimulatedRun& self) {
    return timeline_figure(alone(self));
  });
  module.def(
      "timelines_figure",
      [](const std::vector<SimulatedRun*>& runs) {
        std::vector<trace::MethodTimeline> timelines;
        for (const SimulatedRun* run : runs) {
          if (run == nullptr) throw py::type_error("a run is None");
          timelines.push_back(run->timeline);
        }
        return timeline_figure(timelines);
      },
      py::arg("runs"), "The timelines of several runs one above the other, as a part of a page.");
}

}  // namespace sluice::python
