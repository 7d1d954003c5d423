#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

namespace {

struct Description {
  cudaError_t code;
  const char* name;
  const char* text;
};

constexpr std::array kDescriptions = {
    Description{cudaSuccess, "cudaSuccess", "no error"},
    Description{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    Description{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    Description{cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    Description{cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
                "invalid configuration argument"},
    Description{cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
                "invalid copy direction for memcpy"},
    Description{cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
                "CUDA driver version is insufficient for CUDA runtime version"},
    Description{cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
                "__global__ function call is not configured"},
    Description{cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    Description{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    Description{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    Description{cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    Description{cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed",
                "mapping of buffer object failed"},
    Description{cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable",
                "uncorrectable ECC error encountered"},
    Description{cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
                "peer access is not supported between these two devices"},
    Description{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    Description{cudaErrorIllegalState, "cudaErrorIllegalState",
                "the operation cannot be performed in the present state"},
    Description{cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    Description{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    Description{cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
                "an illegal memory access was encountered"},
    Description{cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
                "too many resources requested for launch"},
    Description{cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    Description{cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    Description{cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
                "part or all of the requested memory range is already mapped"},
    Description{cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
                "pointer does not correspond to a registered memory region"},
    Description{cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error"},
    Description{cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction",
                "an illegal instruction was encountered"},
    Description{cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    Description{cudaErrorInvalidAddressSpace, "cudaErrorInvalidAddressSpace",
                "operation not supported on global/shared address space"},
    Description{cudaErrorInvalidPc, "cudaErrorInvalidPc", "invalid program counter"},
    Description{cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    Description{cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    Description{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    Description{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
                "operation not permitted when stream is capturing"},
    Description{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
                "operation failed due to a previous error during capture"},
    Description{cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
                "operation would result in a merge of separate capture sequences"},
    Description{cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
                "capture was not ended in the same stream as it began"},
    Description{cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
                "capturing stream has unjoined work"},
    Description{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
                "dependency created on uncaptured work in another stream"},
    Description{cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
                "operation would make the legacy stream depend on a capturing blocking stream"},
    Description{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
                "operation not permitted on an event last recorded in a capturing stream"},
    Description{cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
                "attempt to terminate a thread-local capture sequence from another thread"},
    Description{
        cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
        "the graph update was not performed because it included changes which violated constraints specific "
        "to instantiated graph update"},
    Description{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const Description* describe(cudaError_t code) {
  const auto* const found =
      std::find_if(kDescriptions.begin(), kDescriptions.end(),
                   [&](const Description& description) { return description.code == code; });
  return found == kDescriptions.end() ? nullptr : found;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t code) {
  const Description* description = describe(code);
  return description != nullptr ? description->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
  const Description* description = describe(code);
  return description != nullptr ? description->text : "unrecognized error code";
}
