#include <fmt/format.h>
#include <pybind11/stl.h>

#include <optional>

#include "arguments.hpp"
#include "bindings.hpp"
#include "duration_argument.hpp"
#include "sluice/error.hpp"

namespace sluice::python {
namespace {

constexpr double kDefaultShare = 0.5;

host::DurationModel make(const TimeArgument& forward, const TimeArgument& backward,
                         const std::optional<TimeArgument>& weight_grad, double sigma,
                         const std::string& spread) {
  host::DurationModel::Times times{nanoseconds("forward", forward), nanoseconds("backward", backward), 0};
  times.weight_grad_ns =
      weight_grad ? nanoseconds("weight_grad", *weight_grad) : kDefaultShare * times.backward_ns;
  if (spread != "lognormal" && spread != "normal")
    throw ConfigError("spread", fmt::format("'{}' is not one of lognormal, normal", spread));
  return host::DurationModel(times, sigma,
                             spread == "normal" ? host::Spread::Normal : host::Spread::Lognormal);
}

host::DurationModel parse(const std::string& text) {
  try {
    return host::DurationModel::parse(text);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    throw ConfigError("durations", what.substr(error.field().size() + 2));
  }
}

double seconds(double ns) { return 1e-9 * ns; }

}  // namespace

std::vector<host::DurationModel> chunk_durations(const DurationsArgument& durations,
                                                 const Pipeline& pipeline) {
  if (const auto* each = std::get_if<std::vector<host::DurationModel>>(&durations)) {
    if (each->size() != pipeline.chunks())
      throw ConfigError("durations",
                        fmt::format("has {} entries for {} chunks", each->size(), pipeline.chunks()));
    return *each;
  }
  const auto* text = std::get_if<std::string>(&durations);
  const host::DurationModel stage = text != nullptr ? parse(*text) : std::get<host::DurationModel>(durations);
  std::vector<host::DurationModel> times;
  for (std::uint32_t chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const auto beside = pipeline.chunks_of(pipeline.stage_of(static_cast<Chunk>(chunk))).size();
    times.push_back(stage.per_chunk(static_cast<std::uint32_t>(beside)));
  }
  return times;
}

void bind_durations(py::module_& module) {
  using host::DurationModel;
  py::class_<DurationModel>(module, "Durations", "How long tasks take, and how that varies. Immutable.")
      .def(py::init(&make), py::arg("forward"), py::arg("backward"), py::arg("weight_grad") = py::none(),
           py::arg("sigma") = 0.0, py::arg("spread") = "lognormal",
           R"(Mean times of one microbatch.

forward, backward, weight_grad: seconds, or a text such as '10ms'; 0 to 10 minutes. `backward` is the whole
backward and `weight_grad` the part of it that can be split off, by default half.
sigma: deviation of the factor that each task draws, 0 to 2: of its logarithm, or with spread='normal' of
itself.
Raises ConfigError naming the argument.)")
      .def_static("parse", &parse, py::arg("text"),
                  "Reads 'f=10ms,b=20ms,w=10ms,sigma=0.2'. Raises ConfigError naming `durations`.")
      .def_property_readonly(
          "forward", [](const DurationModel& self) { return seconds(self.times().forward_ns); }, "Seconds.")
      .def_property_readonly(
          "backward", [](const DurationModel& self) { return seconds(self.times().backward_ns); },
          "Seconds of the whole backward.")
      .def_property_readonly(
          "weight_grad", [](const DurationModel& self) { return seconds(self.times().weight_grad_ns); },
          "Seconds of the part that can be split off.")
      .def_property_readonly("sigma", &DurationModel::sigma, "Deviation.")
      .def("__repr__", [](const DurationModel& self) {
        return fmt::format(
            "<sluice.Durations: forward {:g} s, backward {:g} s, weight_grad {:g} s, sigma {:g}>",
            seconds(self.times().forward_ns), seconds(self.times().backward_ns),
            seconds(self.times().weight_grad_ns), self.sigma());
      });
}

}  // namespace sluice::python
