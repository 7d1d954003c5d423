#include <nccl.h>

#include "nccl_call.hpp"
#include "one_sided.hpp"
#include "reduction.hpp"
#include "settings.hpp"

namespace fakenccl {
namespace {

/// The first driver with what one-sided calls need.
constexpr int kDriver = 12050;

ncclResult_t refuse(const Communicator& communicator, const std::string& why) {
  return fail(ncclInvalidArgument, communicator.name() + ": " + why);
}

/// What the real library asks of a signal, and says so.
ncclResult_t check(Communicator& communicator, int peer, int signal, int context) {
  if (const ncclResult_t refused = communicator.ready()) return refused;
  if (fakecuda::driver_version() < kDriver) {
    return fail(ncclInvalidUsage, "one-sided calls need a driver of 12.5 or later");
  }
  if (peer < 0 || peer >= communicator.place().ranks) {
    return refuse(communicator, "there is no rank " + std::to_string(peer));
  }
  if (signal != 0) return refuse(communicator, "signal index " + std::to_string(signal) + " is not 0");
  if (context != 0) return refuse(communicator, "context " + std::to_string(context) + " is not 0");
  return ncclSuccess;
}

ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, cudaStream_t stream,
                    Operation operation) {
  const auto step = [communicator, stream, operation = std::move(operation)] {
    return std::optional(communicator->launch(stream, operation));
  };
  return group::submit(communicator, step, false);
}

/// The window of the communicator that the source begins in.
std::shared_ptr<Window> window_of(const Communicator& communicator, const void* source) {
  for (const auto& window : communicator.windows()) {
    if (window->symmetric() && window->holds(source, 0)) return window;
  }
  return nullptr;
}

ncclResult_t find_ends(Communicator& communicator, const void* source, ncclWindow_t handle, Put& put) {
  put.target = windows().find(handle);
  if (put.target == nullptr) {
    if (handle == nullptr) return refuse(communicator, "a put into no window");
    return misuse(ncclInvalidArgument, communicator.name() + ": a put into a window that is deregistered");
  }
  if (put.target->communicator.lock().get() != &communicator) {
    return misuse(ncclInvalidArgument, communicator.name() + ": a put into another communicator's window");
  }
  if (!put.target->symmetric()) return refuse(communicator, "a put into a window that is not symmetric");
  const auto source_window = window_of(communicator, source);
  if (source_window == nullptr) {
    return refuse(communicator, "the source of a put does not lie in a registered symmetric window");
  }
  if (!source_window->holds(source, put.bytes)) {
    return misuse(ncclInvalidArgument, communicator.name() + ": the source of a put of " +
                                           std::to_string(put.bytes) + " bytes reaches past its window");
  }
  const std::size_t room = put.target->size - std::min(put.target->size, put.target_offset);
  if (put.bytes > room) {
    return misuse(ncclInvalidArgument, communicator.name() + ": a put of " + std::to_string(put.bytes) +
                                           " bytes at offset " + std::to_string(put.target_offset) +
                                           " reaches past the peer's window");
  }
  put.source = *fakecuda::AddressSpace::instance().find(source);
  return ncclSuccess;
}

ncclResult_t wait_signal(const std::shared_ptr<Communicator>& communicator, int count,
                         const ncclWaitSignalDesc_t* descriptors, cudaStream_t stream) {
  if (const ncclResult_t refused = communicator->ready()) return refused;
  if (descriptors == nullptr || count <= 0) return refuse(*communicator, "a wait for nothing");
  std::vector<Awaited> awaited;
  for (int i = 0; i < count; ++i) {
    const ncclWaitSignalDesc_t& one = descriptors[i];
    if (const auto refused = check(*communicator, one.peer, one.sigIdx, one.ctx)) return refused;
    if (one.opCnt <= 0) return refuse(*communicator, "a wait for no signal");
    awaited.push_back({one.peer, static_cast<std::uint64_t>(one.opCnt)});
  }
  return submit(communicator, stream, wait_operation(communicator, awaited));
}

}  // namespace
}  // namespace fakenccl

using fakenccl::call;

ncclResult_t ncclPutSignal(const void* source, std::size_t count, ncclDataType_t type, int peer,
                           ncclWindow_t window, std::size_t offset, int signal, int context, unsigned flags,
                           ncclComm_t communicator, cudaStream_t stream) {
  return call("ncclPutSignal", communicator, [&](const auto& found) {
    if (const auto refused = fakenccl::check(*found, peer, signal, context)) return refused;
    if (flags != 0) return fakenccl::refuse(*found, "the flags of a put are not 0");
    const std::size_t size = fakenccl::bytes_of(type);
    if (size == 0) return fakenccl::refuse(*found, "no such type");
    fakenccl::Put put{{}, count * size, nullptr, offset, peer};
    if (const auto refused = fakenccl::find_ends(*found, source, window, put)) return refused;
    return fakenccl::submit(found, stream, fakenccl::put_operation(found, put));
  });
}

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t communicator,
                        cudaStream_t stream) {
  return call("ncclSignal", communicator, [&](const auto& found) {
    if (const auto refused = fakenccl::check(*found, peer, signal, context)) return refused;
    if (flags != 0) return fakenccl::refuse(*found, "the flags of a signal are not 0");
    return fakenccl::submit(found, stream, fakenccl::put_operation(found, {{}, 0, nullptr, 0, peer}));
  });
}

ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t* descriptors, ncclComm_t communicator,
                            cudaStream_t stream) {
  return call("ncclWaitSignal", communicator,
              [&](const auto& found) { return fakenccl::wait_signal(found, count, descriptors, stream); });
}
