#include <utility>
#include <vector>

#include "call.hpp"
#include "capture.hpp"

namespace fakecuda {
namespace {

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

struct CaptureInfo {
  cudaStreamCaptureStatus* status;
  unsigned long long* id;
  cudaGraph_t* graph;
  const cudaGraphNode_t** dependencies;
  const cudaGraphEdgeData** edges;
  std::size_t* count;
};

void fill(const CaptureInfo& info, const Stream& stream) {
  static thread_local std::vector<cudaGraphNode_t> nodes;
  *info.status = status_of(stream);
  if (*info.status != cudaStreamCaptureStatusActive) return;
  Capture& capture = *stream.capture;
  if (info.id != nullptr) *info.id = capture.id;
  const bool handle_wanted = info.graph != nullptr || info.dependencies != nullptr;
  if (handle_wanted && capture.handle == nullptr) capture.handle = graphs().add(capture.graph);
  if (info.graph != nullptr) *info.graph = capture.handle;
  if (info.dependencies != nullptr) {
    nodes.clear();
    for (const std::size_t index : stream.capture_tail) nodes.push_back(node_handle(capture.handle, index));
    *info.dependencies = nodes.data();
  }
  if (info.edges != nullptr) *info.edges = nullptr;
  if (info.count != nullptr) *info.count = stream.capture_tail.size();
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] {
    const auto stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    return captures::begin(stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    const auto stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    std::shared_ptr<Graph> captured;
    const cudaError_t error = captures::end(stream, captured);
    if (error == cudaSuccess) *graph = graphs().add(std::move(captured));
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", [&] {
    const auto stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream == legacy_stream(stream->device())) {
      if (const cudaError_t refused = captures::ask_about_legacy(*stream)) return refused;
    }
    const std::lock_guard lock(captures::mutex());
    *status = status_of(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return call("cudaStreamGetCaptureInfo", [&] {
    const auto stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const std::lock_guard lock(captures::mutex());
    fill({status, id, graph, dependencies, edges, count}, *stream);
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&] {
    *mode = captures::exchange_thread_mode(*mode);
    return cudaSuccess;
  });
}
