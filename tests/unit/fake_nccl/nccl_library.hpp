#pragma once

#include <dlfcn.h>
#include <nccl.h>

namespace fake_nccl_tests {

/// The NCCL that is there when a program runs: the fake one, or on a GPU machine the real one.
struct Nccl {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommSplit) comm_split = nullptr;
  decltype(&ncclCommCount) comm_count = nullptr;
  decltype(&ncclCommUserRank) comm_user_rank = nullptr;
  decltype(&ncclCommCuDevice) comm_cu_device = nullptr;
  decltype(&ncclMemAlloc) mem_alloc = nullptr;
  decltype(&ncclMemFree) mem_free = nullptr;
  decltype(&ncclCommWindowRegister) comm_window_register = nullptr;
  decltype(&ncclCommWindowDeregister) comm_window_deregister = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclPutSignal) put_signal = nullptr;
  decltype(&ncclSignal) signal = nullptr;
  decltype(&ncclWaitSignal) wait_signal = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  /// All of them were found.
  bool complete = false;
};

/// Loaded once; not complete where there is none, or an old one.
inline const Nccl& nccl() {
  static const Nccl kLibrary = [] {
    Nccl found;
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return found;
    found.complete = true;
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      found.complete = found.complete && function != nullptr;
    };
    load(found.get_version, "ncclGetVersion");
    load(found.get_error_string, "ncclGetErrorString");
    load(found.get_last_error, "ncclGetLastError");
    load(found.get_unique_id, "ncclGetUniqueId");
    load(found.comm_init_rank, "ncclCommInitRank");
    load(found.comm_init_rank_config, "ncclCommInitRankConfig");
    load(found.comm_finalize, "ncclCommFinalize");
    load(found.comm_destroy, "ncclCommDestroy");
    load(found.comm_abort, "ncclCommAbort");
    load(found.comm_get_async_error, "ncclCommGetAsyncError");
    load(found.comm_split, "ncclCommSplit");
    load(found.comm_count, "ncclCommCount");
    load(found.comm_user_rank, "ncclCommUserRank");
    load(found.comm_cu_device, "ncclCommCuDevice");
    load(found.mem_alloc, "ncclMemAlloc");
    load(found.mem_free, "ncclMemFree");
    load(found.comm_window_register, "ncclCommWindowRegister");
    load(found.comm_window_deregister, "ncclCommWindowDeregister");
    load(found.all_reduce, "ncclAllReduce");
    load(found.put_signal, "ncclPutSignal");
    load(found.signal, "ncclSignal");
    load(found.wait_signal, "ncclWaitSignal");
    load(found.group_start, "ncclGroupStart");
    load(found.group_end, "ncclGroupEnd");
    return found;
  }();
  return kLibrary;
}

}  // namespace fake_nccl_tests
