#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "sluice/task.hpp"

/// Tables for Python: a dictionary of columns, which pandas.DataFrame takes as it is.
namespace sluice::python {

namespace py = pybind11;

/// Numbers as an `array.array`, whose memory NumPy takes without a copy.
template <typename Number>
[[nodiscard]] py::object column(const std::vector<Number>& numbers) {
  constexpr const char* code = std::is_floating_point_v<Number> ? "d" : sizeof(Number) == 1 ? "B" : "q";
  static_assert(sizeof(Number) == 8 || sizeof(Number) == 1);
  const auto* bytes = reinterpret_cast<const char*>(numbers.data());
  return py::module_::import("array").attr("array")(code, py::bytes(bytes, sizeof(Number) * numbers.size()));
}

/// A column of one number an element.
template <typename Number, typename Elements, typename Function>
[[nodiscard]] py::object column_of(const Elements& elements, Function number) {
  std::vector<Number> numbers;
  numbers.reserve(std::size(elements));
  for (const auto& each : elements) numbers.push_back(static_cast<Number>(number(each)));
  return column(numbers);
}

/// A column of letters, F, B or W: a list, since there is no array of text without NumPy.
template <typename Elements, typename Function>
[[nodiscard]] py::list letters_of(const Elements& elements, Function pass) {
  const py::str letters[kPasses] = {py::str("F"), py::str("B"), py::str("W")};
  py::list list(std::size(elements));
  std::size_t at = 0;
  for (const auto& each : elements) list[at++] = letters[static_cast<std::size_t>(pass(each))];
  return list;
}

}  // namespace sluice::python
