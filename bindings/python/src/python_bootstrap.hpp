#pragma once

#include <pybind11/pybind11.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/process/bootstrap.hpp"

namespace sluice::python {

namespace py = pybind11;

/// The first words go through a function of Python's, such as a collective over a store.
class PythonBootstrap final : public process::Bootstrap {
 public:
  PythonBootstrap(std::uint32_t rank, std::uint32_t ranks, std::string host, py::function all_gather)
      : rank_(rank), ranks_(ranks), host_(std::move(host)), all_gather_(std::move(all_gather)) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const std::string& host() const noexcept override { return host_; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    const py::gil_scoped_acquire acquired;
    const py::object all = all_gather_(py::bytes(reinterpret_cast<const char*>(own.data()), own.size()));
    std::vector<std::vector<std::byte>> gathered;
    for (const py::handle each : all) {
      const auto text = each.cast<std::string>();
      gathered.emplace_back(text.size());
      std::memcpy(gathered.back().data(), text.data(), text.size());
    }
    if (gathered.size() != ranks_)
      throw Error("all_gather returned the bytes of " + std::to_string(gathered.size()) + " ranks");
    return gathered;
  }

 private:
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::string host_;
  py::function all_gather_;
};

}  // namespace sluice::python
