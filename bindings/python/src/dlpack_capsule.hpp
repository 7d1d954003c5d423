#pragma once

#include <pybind11/pybind11.h>

#include <span>
#include <vector>

#include "sluice/host/payload.hpp"

/// Tensors between Python and the engine, as DLPack capsules: a pointer changes hands, never the elements.
namespace sluice::python {

namespace py = pybind11;

/// One list of capsules a payload, which is empty afterwards. Call with the GIL.
[[nodiscard]] py::list to_capsules(std::span<host::Payload> payloads);

/// Takes over what the capsules hold. Call with the GIL.
/// @param lists one list of capsules a payload
/// @throws Error if there are more or fewer lists than payloads, or something is not a capsule of a tensor
void from_capsules(const py::object& lists, std::span<host::Payload> payloads);

}  // namespace sluice::python
