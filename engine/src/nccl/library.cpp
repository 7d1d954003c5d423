#include "sluice/nccl/library.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::nccl {
namespace {

/// The first with one-sided calls, as ncclGetVersion counts.
constexpr int kLeastVersion = NCCL_VERSION(2, 29, 0);
/// As cudaDriverGetVersion counts.
constexpr int kLeastDriver = 12050;

constexpr const char* kInstead = "update it, or use UCX instead";

std::string name_of(ncclResult_t code) {
  constexpr std::array names{"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                             "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                             "ncclRemoteError",   "ncclInProgress"};
  const auto place = static_cast<std::size_t>(code);
  return place < names.size() ? names[place] : fmt::format("result {}", place);
}

/// `2.29.7` of 22907.
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw ConfigError("nccl", fmt::format("the library has no {}; {}", name, kInstead));
}

int version_of(void* library) {
  decltype(&ncclGetVersion) get_version = nullptr;
  find(library, "ncclGetVersion", get_version);
  int version = 0;
  if (const ncclResult_t code = get_version(&version); code != ncclSuccess)
    throw NcclError(code, "asking for the version of NCCL");
  if (version < kLeastVersion) {
    throw ConfigError("nccl", fmt::format("version {} was found, which has no one-sided calls; {} is the "
                                          "least: {}",
                                          version_text(version), version_text(kLeastVersion), kInstead));
  }
  return version;
}

void check_driver() {
  int driver = 0;
  cuda::check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  if (driver < kLeastDriver) {
    throw ConfigError("nccl", fmt::format("the driver knows CUDA up to {}.{}, and one-sided calls need 12.5: "
                                          "{}",
                                          driver / 1000, driver % 1000 / 10, kInstead));
  }
}

}  // namespace

NcclError::NcclError(ncclResult_t code, const std::string& what)
    : Error(fmt::format("{}: {}", what, name_of(code))), code_(code) {}

const Library& Library::get() {
  static const Library library = load();
  return library;
}

Library Library::load(const char* file) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw ConfigError("nccl", fmt::format("there is no NCCL ({}): install NCCL 2.29 or later where the "
                                          "loader finds it, or use UCX instead",
                                          dlerror()));
  }
  Library library;
  library.version = version_of(handle);
  check_driver();
  find(handle, "ncclGetErrorString", library.get_error_string);
  find(handle, "ncclGetLastError", library.get_last_error);
  find(handle, "ncclGetUniqueId", library.get_unique_id);
  find(handle, "ncclCommInitRankConfig", library.comm_init_rank_config);
  find(handle, "ncclCommFinalize", library.comm_finalize);
  find(handle, "ncclCommDestroy", library.comm_destroy);
  find(handle, "ncclCommAbort", library.comm_abort);
  find(handle, "ncclCommGetAsyncError", library.comm_get_async_error);
  find(handle, "ncclMemAlloc", library.mem_alloc);
  find(handle, "ncclMemFree", library.mem_free);
  find(handle, "ncclCommWindowRegister", library.comm_window_register);
  find(handle, "ncclCommWindowDeregister", library.comm_window_deregister);
  find(handle, "ncclAllReduce", library.all_reduce);
  find(handle, "ncclPutSignal", library.put_signal);
  find(handle, "ncclSignal", library.signal);
  find(handle, "ncclWaitSignal", library.wait_signal);
  return library;
}

}  // namespace sluice::nccl
