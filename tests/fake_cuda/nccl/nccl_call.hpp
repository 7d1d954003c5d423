#pragma once

#include <string>

#include "communicator.hpp"
#include "failure.hpp"
#include "faults.hpp"
#include "group.hpp"
#include "thread_sanitizer.hpp"

namespace fakenccl {

/// One call of NCCL.
template <typename Body>
ncclResult_t call(const char* function, Body body) {
  const fakecuda::Hidden hidden;
  const auto planned = static_cast<ncclResult_t>(fakecuda::planned_failure(function));
  const ncclResult_t result =
      planned != ncclSuccess ? fail(planned, std::string(function) + ": a planned failure") : body();
  group::called(result);
  return result;
}

/// One for a communicator.
template <typename Body>
ncclResult_t call(const char* function, ncclComm_t handle, Body body) {
  return call(function, [&] {
    const auto communicator = communicators().find(handle);
    if (communicator != nullptr) return body(communicator);
    if (handle == nullptr) return fail(ncclInvalidArgument, std::string(function) + ": no communicator");
    return misuse(ncclInvalidArgument, std::string(function) + " of a communicator that was destroyed");
  });
}

}  // namespace fakenccl
