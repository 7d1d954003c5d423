#pragma once

#include <pybind11/pybind11.h>

/// What the extension module `sluice._engine` is made of, one file each.
namespace sluice::python {

namespace py = pybind11;

/// The exceptions, and which C++ error becomes which.
void bind_errors(py::module_& module);
void bind_pipeline(py::module_& module);
/// Schedules and hints.
void bind_schedule(py::module_& module);
void bind_durations(py::module_& module);
/// The delay model, for others' messages.
void bind_message_delays(py::module_& module);
void bind_simulation(py::module_& module);
void bind_trace(py::module_& module);
/// A rank of a pipeline over processes that runs Python code; where the module is built with UCX.
void bind_process_rank(py::module_& module);
/// The command line, and what the module was built with.
void bind_command(py::module_& module);

}  // namespace sluice::python
