#include <pybind11/stl.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "command/command_line.hpp"

namespace sluice::python {
namespace {

int run(const std::vector<std::string>& arguments) {
  const py::gil_scoped_release released;
  std::vector<const char*> argv{"sluice"};
  for (const std::string& each : arguments) argv.push_back(each.c_str());
  const int code = tools::run_command_line(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  return code;
}

py::dict build_info() {
  py::dict info;
  info["version"] = SLUICE_VERSION;
  info["compiler"] = SLUICE_COMPILER;
  info["ucx"] = SLUICE_HAVE_UCX != 0;
  info["cuda"] = SLUICE_HAVE_CUDA != 0;
  info["nccl"] = SLUICE_HAVE_NCCL != 0;
  info["nvtx"] = SLUICE_HAVE_NVTX != 0;
  return info;
}

}  // namespace

void bind_command(py::module_& module) {
  module.def("run_command_line", &run, py::arg("arguments"),
             "Runs the `sluice` command with these arguments and returns its exit code.");
  module.def("build_info", &build_info, "Version, compiler, and which parts the module was built with.");
}

}  // namespace sluice::python
