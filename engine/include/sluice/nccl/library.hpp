#pragma once

#include <nccl.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::nccl {

/// An NCCL call failed.
class NcclError : public Error {
 public:
  /// @param what what was tried, naming the edge or group it was for
  NcclError(ncclResult_t code, const std::string& what);

  [[nodiscard]] ncclResult_t code() const noexcept { return code_; }

 private:
  ncclResult_t code_;
};

/// The calls of the NCCL library that is there when the program runs. It is loaded when it is first asked
/// for, so that a program that can use NCCL also starts where there is none.
struct Library {
  /// As ncclGetVersion says: 22907 is 2.29.7.
  int version = 0;

  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclMemAlloc) mem_alloc = nullptr;
  decltype(&ncclMemFree) mem_free = nullptr;
  decltype(&ncclCommWindowRegister) comm_window_register = nullptr;
  decltype(&ncclCommWindowDeregister) comm_window_deregister = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclPutSignal) put_signal = nullptr;
  decltype(&ncclSignal) signal = nullptr;
  decltype(&ncclWaitSignal) wait_signal = nullptr;

  /// @throws as `load`, at each call until there is a library
  [[nodiscard]] static const Library& get();
  /// Loads a library, which stays loaded.
  /// @param file as dlopen takes it
  /// @throws ConfigError naming `nccl`: there is none, or one older than 2.29, which has no one-sided calls,
  ///         or a driver older than 12.5; says what was found and that UCX is the choice then
  [[nodiscard]] static Library load(const char* file = "libnccl.so.2");
};

}  // namespace sluice::nccl
