#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "call.hpp"
#include "capture.hpp"
#include "copies.hpp"
#include "settings.hpp"

namespace fakecuda {
namespace {

CUresult as_result(cudaError_t error) { return static_cast<CUresult>(error); }

template <typename Word>
cudaError_t find_word(const char* what, CUdeviceptr address, Operand& operand) {
  if (address % sizeof(Word) != 0) return cudaErrorInvalidValue;
  const cudaError_t error = find_operand(what, reinterpret_cast<const void*>(address), sizeof(Word), operand);
  if (error != cudaSuccess) return error;
  return operand.pageable() ? cudaErrorInvalidValue : cudaSuccess;
}

template <typename Word>
cudaError_t write(CUstream stream, CUdeviceptr address, Word value, unsigned flags) {
  Operand target;
  if (const cudaError_t error = find_word<Word>("cuStreamWriteValue", address, target)) return error;
  if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return cudaErrorInvalidValue;
  // Without the barrier, what the stream did before need not be visible to who sees the value.
  const auto order =
      flags == CU_STREAM_WRITE_VALUE_DEFAULT ? std::memory_order_release : std::memory_order_relaxed;
  auto work = std::make_shared<Work>();
  work->type = kBatchMemoryOperation;
  work->label = "write of a value";
  work->run = [target, value, order] {
    const Exposed exposed;
    std::atomic_ref(*reinterpret_cast<Word*>(target.bytes)).store(value, order);
    return cudaSuccess;
  };
  return submit(stream, std::move(work));
}

template <typename Word>
bool holds(Word seen, Word value, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<Word>>(seen - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & value) != 0;
    default:
      return static_cast<Word>(~(seen | value)) != 0;
  }
}

template <typename Word>
cudaError_t wait_for(const Operand& source, Word value, unsigned condition) {
  const Exposed exposed;
  const std::atomic_ref word(*reinterpret_cast<Word*>(source.bytes));
  while (!holds(word.load(std::memory_order_relaxed), value, condition)) {
    if (device_error() != cudaSuccess) return cudaSuccess;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  static_cast<void>(word.load(std::memory_order_acquire));
  return cudaSuccess;
}

template <typename Word>
cudaError_t wait(CUstream stream, CUdeviceptr address, Word value, unsigned flags) {
  Operand source;
  if (const cudaError_t error = find_word<Word>("cuStreamWaitValue", address, source)) return error;
  const unsigned condition = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  if (condition > CU_STREAM_WAIT_VALUE_NOR) return cudaErrorInvalidValue;
  auto work = std::make_shared<Work>();
  work->type = kBatchMemoryOperation;
  work->label = "wait for a value";
  work->run = [source, value, condition] { return wait_for<Word>(source, value, condition); };
  return submit(stream, std::move(work));
}

CUresult write_value_32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return as_result(call("cuStreamWriteValue32", [&] { return write(stream, address, value, flags); }));
}

CUresult write_value_64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return as_result(call("cuStreamWriteValue64", [&] { return write(stream, address, value, flags); }));
}

CUresult wait_value_32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return as_result(call("cuStreamWaitValue32", [&] { return wait(stream, address, value, flags); }));
}

CUresult wait_value_64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return as_result(call("cuStreamWaitValue64", [&] { return wait(stream, address, value, flags); }));
}

CUresult get_error_name(CUresult code, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(code));
  return CUDA_SUCCESS;
}

CUresult get_error_string(CUresult code, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(code));
  return CUDA_SUCCESS;
}

struct EntryPoint {
  const char* name;
  int since;
  void* function;
};

const std::array kEntryPoints = {
    EntryPoint{"cuStreamWriteValue32", 8000, reinterpret_cast<void*>(write_value_32)},
    EntryPoint{"cuStreamWaitValue32", 8000, reinterpret_cast<void*>(wait_value_32)},
    EntryPoint{"cuStreamWriteValue64", 9000, reinterpret_cast<void*>(write_value_64)},
    EntryPoint{"cuStreamWaitValue64", 9000, reinterpret_cast<void*>(wait_value_64)},
    EntryPoint{"cuGetErrorName", 6000, reinterpret_cast<void*>(get_error_name)},
    EntryPoint{"cuGetErrorString", 6000, reinterpret_cast<void*>(get_error_string)},
};

cudaError_t find_entry_point(const char* name, void** function, int version,
                             cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = nullptr;
  if (driver_version() == 0) return cudaErrorInsufficientDriver;
  const auto* const found =
      std::find_if(kEntryPoints.begin(), kEntryPoints.end(),
                   [&](const EntryPoint& entry) { return std::string_view(name) == entry.name; });
  auto result = cudaDriverEntryPointSuccess;
  if (found == kEntryPoints.end()) {
    result = cudaDriverEntryPointSymbolNotFound;
  } else if (version < found->since || driver_version() < found->since) {
    result = cudaDriverEntryPointVersionNotSufficent;
  } else {
    *function = found->function;
  }
  if (status != nullptr) *status = result;
  return cudaSuccess;
}

}  // namespace
}  // namespace fakecuda

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* status) {
  return fakecuda::call("cudaGetDriverEntryPoint",
                        [&] { return fakecuda::find_entry_point(name, function, CUDART_VERSION, status); });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  return fakecuda::call("cudaGetDriverEntryPointByVersion", [&] {
    return fakecuda::find_entry_point(name, function, static_cast<int>(version), status);
  });
}
