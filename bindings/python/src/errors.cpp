#include <exception>
#include <string>
#include <utility>

#include "bindings.hpp"
#include "sluice/error.hpp"

namespace sluice::python {
namespace {

/// @param bases one type, or a tuple of them
py::object add(py::module_& module, const char* name, const char* doc, const py::object& bases) {
  const std::string qualified = std::string("sluice.") + name;
  auto type = py::reinterpret_steal<py::object>(
      PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr));
  if (!type) throw py::error_already_set();
  module.attr(name) = type;
  return type;
}

/// Makes the exception of that name; its attributes may be set before it is raised.
py::object made(const char* name, const std::exception& error) {
  return py::module_::import("sluice._engine").attr(name)(error.what());
}

void raise(const py::object& exception) {
  PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(std::move(thrown));
  } catch (const ConfigError& error) {
    const py::object exception = made("ConfigError", error);
    exception.attr("field") = error.field();
    raise(exception);
  } catch (const TaskError& error) {
    const py::object exception = made("TaskError", error);
    exception.attr("rank") = error.rank();
    exception.attr("task") = error.task();
    raise(exception);
  } catch (const ProtocolError& error) {
    raise(made("ProtocolError", error));
  } catch (const StallError& error) {
    raise(made("StallError", error));
  } catch (const Aborted& error) {
    raise(made("Aborted", error));
  } catch (const Error& error) {
    raise(made("Error", error));
  }
}

}  // namespace

void bind_errors(py::module_& module) {
  const py::object base = add(module, "Error", "Base of every error that Sluice raises.",
                              py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  const auto config_bases = py::make_tuple(base, py::reinterpret_borrow<py::object>(PyExc_ValueError));
  const py::object config =
      add(module, "ConfigError", "Bad input, refused before anything starts; `field` names what it is about.",
          config_bases);
  config.attr("field") = "";
  const py::object task = add(module, "TaskError", "A task failed; `rank` and `task` say which.", base);
  task.attr("rank") = py::none();
  task.attr("task") = py::none();
  add(module, "ProtocolError", "A message that cannot belong to the run.", base);
  add(module, "StallError", "Nothing can happen any more; the message says what each rank waits for.", base);
  add(module, "Aborted", "This rank stopped because another one failed first.", base);
  py::register_exception_translator(translate);
}

}  // namespace sluice::python
