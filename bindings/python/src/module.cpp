#include "bindings.hpp"

PYBIND11_MODULE(_engine, module) {
  module.doc() = "The engine's classes, as the package `sluice` offers them. Times are seconds.";
  sluice::python::bind_errors(module);
  sluice::python::bind_pipeline(module);
  sluice::python::bind_schedule(module);
  sluice::python::bind_durations(module);
  sluice::python::bind_message_delays(module);
  sluice::python::bind_trace(module);
  sluice::python::bind_simulation(module);
#if SLUICE_HAVE_UCX
  sluice::python::bind_process_rank(module);
#endif
  sluice::python::bind_command(module);
}
