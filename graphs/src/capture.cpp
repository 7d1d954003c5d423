#include "capture.hpp"

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::graphs {
namespace {

/// Ends the capture of a stream if nobody else does.
class OpenCapture {
 public:
  explicit OpenCapture(cudaStream_t stream) : stream_(stream) {
    const cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    cuda::check(code, "beginning a capture");
  }
  ~OpenCapture() {
    if (!open_) return;
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &graph));
    const cuda::Graph unused(graph);
    static_cast<void>(cudaGetLastError());
  }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  cuda::Graph end() {
    cudaGraph_t graph = nullptr;
    open_ = false;
    const cudaError_t code = cudaStreamEndCapture(stream_, &graph);
    cuda::Graph owned(graph);
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    cuda::check(code, "ending the capture");
    return owned;
  }

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace

cuda::Graph capture(cudaStream_t stream, const std::function<void()>& work) {
  OpenCapture open(stream);
  work();
  return open.end();
}

}  // namespace sluice::graphs
