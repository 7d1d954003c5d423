#include "copies.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "call.hpp"
#include "capture.hpp"
#include "report.hpp"

namespace fakecuda {

cudaError_t find_operand(const char* what, const void* address, std::size_t bytes, Operand& operand) {
  auto& space = AddressSpace::instance();
  operand.location = space.find(address);
  if (!operand.location) {
    if (space.freed(address)) {
      report(std::string(what) + " uses device memory that was freed");
      return cudaErrorInvalidValue;
    }
    operand.bytes = static_cast<char*>(const_cast<void*>(address));
    return operand.bytes != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  }
  // Memory of a graph may be allocated by the time the work runs, which looks again.
  const bool planned = operand.location->memory->kind() == MemoryKind::Graph;
  const std::string wrong =
      planned && bytes <= operand.location->room() ? "" : misuse(*operand.location, bytes);
  if (!wrong.empty()) {
    report(std::string(what) + ": " + wrong);
    return cudaErrorInvalidValue;
  }
  operand.bytes = operand.location->bytes();
  return cudaSuccess;
}

namespace {

bool kind_fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

void add_access(Work& work, const Operand& operand, std::size_t bytes, bool write) {
  if (operand.location) work.accesses.push_back({*operand.location, bytes, write});
}

std::shared_ptr<Work> copy_work(const Operand& to, const Operand& from, std::size_t bytes) {
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeMemcpy;
  work->label = "copy of " + std::to_string(bytes) + " bytes";
  add_access(*work, from, bytes, false);
  add_access(*work, to, bytes, true);
  work->run = [to = to.bytes, from = from.bytes, bytes] {
    const Exposed exposed;
    std::memmove(to, from, bytes);
    return cudaSuccess;
  };
  return work;
}

/// From the program's pageable memory: read before the call returns, as documented.
std::shared_ptr<Work> staged_copy_work(const Operand& to, const Operand& from, std::size_t bytes) {
  auto staging = std::make_shared<std::vector<char>>(bytes);
  {
    const Exposed exposed;
    std::memcpy(staging->data(), from.bytes, bytes);
  }
  auto work = copy_work(to, from, bytes);
  work->run = [to = to.bytes, staging, bytes] {
    const Exposed exposed;
    std::memcpy(to, staging->data(), bytes);
    return cudaSuccess;
  };
  return work;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  Operand target;
  Operand source;
  if (const cudaError_t error = find_operand("the target of a copy", to, bytes, target)) return error;
  if (const cudaError_t error = find_operand("the source of a copy", from, bytes, source)) return error;
  if (!kind_fits(kind, target.on_device(), source.on_device())) return cudaErrorInvalidValue;
  const auto stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (captures::capturing(*stream)) return submit(handle, copy_work(target, source, bytes));
  const bool staged = source.pageable();
  const cudaError_t error =
      submit(handle, staged ? staged_copy_work(target, source, bytes) : copy_work(target, source, bytes));
  // Into the program's pageable memory: done when the call returns, as documented.
  if (error == cudaSuccess && target.pageable()) stream->last()->wait();
  return error;
}

cudaError_t fill(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  Operand target;
  if (const cudaError_t error = find_operand("the target of a fill", to, bytes, target)) return error;
  if (target.pageable()) return cudaErrorInvalidValue;
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeMemset;
  work->label = "fill of " + std::to_string(bytes) + " bytes";
  add_access(*work, target, bytes, true);
  work->run = [to = target.bytes, value, bytes] {
    const Exposed exposed;
    std::memset(to, value, bytes);
    return cudaSuccess;
  };
  return submit(handle, work);
}

cudaError_t wait_for_legacy() {
  const auto legacy = find_stream(nullptr);
  if (const auto last = legacy->last()) last->wait();
  return device_error();
}

}  // namespace
}  // namespace fakecuda

using fakecuda::call;

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] { return fakecuda::copy(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", [&] {
    int devices = 0;
    static_cast<void>(cudaGetDeviceCount(&devices));
    if (to_device < 0 || to_device >= devices || from_device < 0 || from_device >= devices) {
      return cudaErrorInvalidDevice;
    }
    return fakecuda::copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&] {
    if (const cudaError_t refused = fakecuda::captures::unsafe_call()) return refused;
    const cudaError_t error = fakecuda::copy(to, from, bytes, kind, nullptr);
    return error != cudaSuccess ? error : fakecuda::wait_for_legacy();
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&] { return fakecuda::fill(to, value, bytes, stream); });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", [&] {
    if (const cudaError_t refused = fakecuda::captures::unsafe_call()) return refused;
    const cudaError_t error = fakecuda::fill(to, value, bytes, nullptr);
    return error != cudaSuccess ? error : fakecuda::wait_for_legacy();
  });
}
