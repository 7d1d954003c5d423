#pragma once

#include <pybind11/pybind11.h>

#include <exception>

#include "dlpack_capsule.hpp"
#include "sluice/error.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::python {

namespace py = pybind11;

/// What the tasks of a step call, and the first exception that they raised.
struct PythonCode {
  py::object code = py::none();
  /// Called after each task, when what it made is on its way; there if `has_after_task`.
  py::object after_task = py::none();
  bool has_after_task = false;
  std::exception_ptr raised;

  void begin(py::object given) {
    after_task = py::getattr(given, "after_task", py::none());
    has_after_task = !after_task.is_none();
    code = std::move(given);
    raised = nullptr;
  }
  void end() { code = after_task = py::none(); }

  /// The engine tells all ranks the text; this rank's caller gets the exception itself.
  template <typename Call>
  void guarded(Call call) {
    const py::gil_scoped_acquire acquired;
    try {
      call();
    } catch (const py::error_already_set& error) {
      if (!raised) raised = std::current_exception();
      throw Error(error.what());
    }
  }
};

/// Calls the step's code for one chunk, on the thread that called `step`.
class PythonStage final : public host::Stage {
 public:
  PythonStage(Chunk chunk, PythonCode& code) : chunk_(chunk), code_(code) {}

  void forward(const host::TaskContext& context, std::span<host::Payload> inputs,
               std::span<host::Payload> outputs) override {
    code_.guarded([&] {
      from_capsules(code_.code.attr("forward")(chunk_, context.microbatch, to_capsules(inputs)), outputs);
    });
  }
  void backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                std::span<host::Payload> input_grads) override {
    code_.guarded([&] {
      from_capsules(code_.code.attr("backward")(chunk_, context.microbatch, to_capsules(output_grads), whole),
                    input_grads);
    });
  }
  void weight_grad(const host::TaskContext& context) override {
    code_.guarded([&] { code_.code.attr("weight_grad")(chunk_, context.microbatch); });
  }

 private:
  Chunk chunk_;
  PythonCode& code_;
};

}  // namespace sluice::python
