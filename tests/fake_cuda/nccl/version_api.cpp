#include <nccl.h>

#include "nccl_call.hpp"
#include "nccl_hooks.hpp"

namespace fakenccl {
namespace {

const char* text_of(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclTimeout:
      return "NCCL operation timed out";
    default:
      return "unknown result code";
  }
}

}  // namespace
}  // namespace fakenccl

ncclResult_t ncclGetVersion(int* version) {
  return fakenccl::call("ncclGetVersion", [&] {
    if (version == nullptr) return fakenccl::fail(ncclInvalidArgument, "ncclGetVersion: no place for it");
    const int asked = fakecuda::nccl_hooks::version();
    *version = asked != 0 ? asked : NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t code) { return fakenccl::text_of(code); }

const char* ncclGetLastError(ncclComm_t /*communicator*/) {
  const fakecuda::Hidden hidden;
  return fakenccl::last_message();
}
