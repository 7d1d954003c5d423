#include <nccl.h>

#include "device.hpp"
#include "join.hpp"
#include "live_count.hpp"
#include "nccl_call.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "window.hpp"

namespace fakenccl {
namespace {

ncclResult_t initialize(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                        const ncclConfig_t* config) {
  if (handle == nullptr) return fail(ncclInvalidArgument, "no place for the communicator");
  *handle = nullptr;
  if (fakecuda::driver_version() == 0) return fail(ncclUnhandledCudaError, "no CUDA driver");
  if (ranks < 1 || rank < 0 || rank >= ranks) return fail(ncclInvalidArgument, "no such rank");
  if (ranks > kMostRanks) {
    return misuse(ncclInvalidArgument, "the fake has communicators of at most " + std::to_string(kMostRanks));
  }
  bool blocking = true;
  if (const ncclResult_t refused = read_config(config, true, blocking)) return refused;
  const auto meeting = Meeting::find(id);
  if (meeting == nullptr) return fail(ncclInvalidArgument, "the unique id is none, or its maker is gone");
  return join(meeting, {rank, ranks, fakecuda::current_device(), blocking}, handle);
}

ncclResult_t finalize(const std::shared_ptr<Communicator>& communicator) {
  if (const ncclResult_t refused = communicator->ready()) return refused;
  communicator->close();
  const Communicator* self = communicator.get();
  const auto step = [self]() -> std::optional<ncclResult_t> {
    return self->idle() ? std::optional(ncclSuccess) : std::nullopt;
  };
  return group::submit(communicator, step, true);
}

void release(ncclComm_t handle, Communicator& communicator) {
  for (const auto& window : communicator.windows()) {
    static_cast<void>(windows().remove(window->handle));
    communicator.remove(*window);
  }
  Meeting::forget(communicator.meeting());
  if (communicators().remove(handle) != nullptr) fakecuda::count_live("communicators", -1);
}

ncclResult_t destroy(ncclComm_t handle, Communicator& communicator) {
  communicator.leave();
  if (!communicator.windows().empty()) {
    fakecuda::report("ncclCommDestroy of " + communicator.name() + ", which has a window registered");
  }
  release(handle, communicator);
  return ncclSuccess;
}

ncclResult_t read(const std::shared_ptr<Communicator>& communicator, int* out,
                  int Communicator::Place::*member) {
  if (out == nullptr) return fail(ncclInvalidArgument, "no place for the answer");
  if (const ncclResult_t refused = communicator->ready()) return refused;
  *out = communicator->place().*member;
  return ncclSuccess;
}

}  // namespace
}  // namespace fakenccl

using fakenccl::call;
using fakenccl::Communicator;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call("ncclGetUniqueId", [&] {
    if (id == nullptr) return fakenccl::fail(ncclInvalidArgument, "ncclGetUniqueId: no place for it");
    return fakenccl::Meeting::create(*id) != nullptr ? ncclSuccess
                                                     : fakenccl::fail(ncclSystemError, "no shared memory");
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  return call("ncclCommInitRank",
              [&] { return fakenccl::initialize(communicator, ranks, id, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return call("ncclCommInitRankConfig",
              [&] { return fakenccl::initialize(communicator, ranks, id, rank, config); });
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  return call("ncclCommFinalize", communicator, [](const auto& found) { return fakenccl::finalize(found); });
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  return call("ncclCommDestroy", communicator,
              [&](const auto& found) { return fakenccl::destroy(communicator, *found); });
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  return call("ncclCommAbort", communicator, [&](const auto& found) {
    found->abort();
    fakenccl::release(communicator, *found);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  return call("ncclCommGetAsyncError", communicator, [&](const auto& found) {
    if (error == nullptr) return fakenccl::fail(ncclInvalidArgument, "no place for the error");
    *error = found->state();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  return call("ncclCommCount", communicator,
              [&](const auto& found) { return fakenccl::read(found, count, &Communicator::Place::ranks); });
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  return call("ncclCommUserRank", communicator,
              [&](const auto& found) { return fakenccl::read(found, rank, &Communicator::Place::rank); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  return call("ncclCommCuDevice", communicator,
              [&](const auto& found) { return fakenccl::read(found, device, &Communicator::Place::device); });
}
