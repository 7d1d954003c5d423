#include <pybind11/stl.h>

#include "arguments.hpp"
#include "bindings.hpp"
#include "sluice/host/delay_model.hpp"

namespace sluice::python {
namespace {

/// For experiments that make others' messages as late as the engine's.
class MessageDelays {
 public:
  MessageDelays(const std::string& delays, std::uint64_t seed, const TimeArgument& compute)
      : model_(host::DelayModel::parse(delays)), seed_(seed), compute_(duration("compute", compute)) {}

  [[nodiscard]] double draw(std::uint64_t iteration, std::uint32_t edge, bool gradient,
                            std::uint32_t microbatch) const {
    MessageId message;
    message.iteration = iteration;
    message.microbatch = static_cast<Microbatch>(microbatch);
    message.edge = static_cast<EdgeId>(edge);
    message.direction = gradient ? Direction::Gradient : Direction::Activation;
    return std::chrono::duration<double>(model_.draw(seed_, message, compute_)).count();
  }

 private:
  host::DelayModel model_;
  std::uint64_t seed_;
  Duration compute_;
};

}  // namespace

void bind_message_delays(py::module_& module) {
  py::class_<MessageDelays>(module, "MessageDelays", "By how much the messages of a run arrive late.")
      .def(py::init<const std::string&, std::uint64_t, const TimeArgument&>(), py::arg("delays"),
           py::arg("seed") = 0, py::arg("compute") = TimeArgument(0.0),
           R"(delays: as `simulate` takes them.
compute: seconds of a task, which the levels j1 to j3 go by.
Raises ConfigError naming the argument.)")
      .def("draw", &MessageDelays::draw, py::arg("iteration"), py::arg("edge"), py::arg("gradient"),
           py::arg("microbatch"), "Seconds, often 0.");
}

}  // namespace sluice::python
