#pragma once

#include <cuda_runtime_api.h>

namespace sluice::cuda {

/// While it exists, calls of this thread that a capture elsewhere forbids neither fail nor break that
/// capture: for threads that poll events or allocate while others capture.
class RelaxedCaptureMode {
 public:
  RelaxedCaptureMode() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCaptureMode() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace sluice::cuda
