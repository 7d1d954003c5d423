#include "call.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "controls.hpp"
#include "faults.hpp"

namespace fakecuda {
namespace {

/// After these the process must start its device anew, by NVIDIA's description of the codes.
constexpr std::array kFatal = {cudaErrorIllegalAddress,     cudaErrorLaunchFailure,
                               cudaErrorLaunchTimeout,      cudaErrorAssert,
                               cudaErrorHardwareStackError, cudaErrorIllegalInstruction,
                               cudaErrorMisalignedAddress,  cudaErrorInvalidAddressSpace,
                               cudaErrorInvalidPc,          cudaErrorECCUncorrectable};

std::atomic<cudaError_t> fatal_error{cudaSuccess};
thread_local cudaError_t last_error = cudaSuccess;
thread_local int host_functions = 0;

}  // namespace

cudaError_t device_error() { return fatal_error.load(); }

void device_failed(cudaError_t code) {
  if (std::find(kFatal.begin(), kFatal.end(), code) == kFatal.end()) return;
  cudaError_t none = cudaSuccess;
  fatal_error.compare_exchange_strong(none, code);
}

cudaError_t admit(const char* function) {
  if (device_error() != cudaSuccess) return device_error();
  if (host_functions > 0) return cudaErrorNotPermitted;
  const cudaError_t planned = planned_failure(function);
  device_failed(planned);
  return planned;
}

cudaError_t remember(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

InHostFunction::InHostFunction() { ++host_functions; }
InHostFunction::~InHostFunction() { --host_functions; }

}  // namespace fakecuda

cudaError_t cudaGetLastError() {
  const fakecuda::Hidden hidden;
  const cudaError_t error = cudaPeekAtLastError();
  fakecuda::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const fakecuda::Hidden hidden;
  return fakecuda::device_error() != cudaSuccess ? fakecuda::device_error() : fakecuda::last_error;
}

void fakecuda_recover() {
  const fakecuda::Hidden hidden;
  fakecuda::fatal_error.store(cudaSuccess);
  fakecuda::last_error = cudaSuccess;
  fakecuda::forget_planned_failures();
}
