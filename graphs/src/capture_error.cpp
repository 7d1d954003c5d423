#include "sluice/graphs/capture_error.hpp"

#include <fmt/format.h>

namespace sluice::graphs {
namespace {

constexpr const char* kForbidden =
    "its code waits for the device, allocates with cudaMalloc, or asks a stream or an event for its state, "
    "which "
    "cannot be captured: move that out of the pass, to prepare_task or to before the run";

const char* advice(cudaError_t code) {
  switch (code) {
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureWrongThread:
      return kForbidden;
    case cudaErrorStreamCaptureUnjoined:
      return "a stream forked from the task's is not joined: record an event at its end and let the task's "
             "stream "
             "wait for that";
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureMerge:
      return "its code waits for work from outside the pass: what a pass needs is done when it is launched";
    case cudaErrorStreamCaptureImplicit:
      return "its code uses the legacy default stream: put all work on the given stream";
    case cudaErrorCapturedEvent:
      return "its code uses an event on the host that it recorded on the captured stream: leave that to "
             "streams";
    case cudaErrorMemoryAllocation:
      return "device memory ran out: lower the limit, capture fewer shapes, or free memory";
    default:
      return nullptr;
  }
}

}  // namespace

CaptureError::CaptureError(std::uint32_t rank, const CaptureKey& key, const std::string& step,
                           cudaError_t code, const std::string& cause)
    : Error(fmt::format("rank {}, {} {}: {}{}{}", rank, step, to_string(key), cause,
                        advice(code) == nullptr ? "" : "; ", advice(code) == nullptr ? "" : advice(code))),
      rank_(rank),
      key_(key),
      code_(code),
      step_(step),
      cause_(cause) {}

}  // namespace sluice::graphs
