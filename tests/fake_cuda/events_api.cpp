#include "call.hpp"
#include "capture.hpp"
#include "event.hpp"

namespace fakecuda {
namespace {

constexpr unsigned kKnownFlags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

cudaError_t create(cudaEvent_t* handle, unsigned flags) {
  if (handle == nullptr || (flags & ~kKnownFlags) != 0U) return cudaErrorInvalidValue;
  std::shared_ptr<SharedEvent> shared;
  if ((flags & cudaEventInterprocess) != 0U) {
    if ((flags & cudaEventDisableTiming) == 0U) return cudaErrorInvalidValue;
    shared = SharedEvent::create();
    if (shared == nullptr) return cudaErrorMemoryAllocation;
  }
  *handle = events().add(std::make_shared<Event>(flags, std::move(shared)));
  return cudaSuccess;
}

std::shared_ptr<Work> record_work(std::function<cudaError_t()> run) {
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeEventRecord;
  work->label = "record of an event";
  work->always = true;
  work->run = std::move(run);
  return work;
}

void reach(const Recording& recording) {
  recording.point->reach();
  if (recording.shared == nullptr) return;
  auto& reached = recording.shared->records().reached;
  std::uint64_t seen = reached.load();
  while (seen < recording.version && !reached.compare_exchange_weak(seen, recording.version)) {
  }
}

Recording next_recording(const Event& event) {
  Recording recording{std::make_shared<Point>(), event.shared(), 0};
  if (recording.shared != nullptr) recording.version = ++recording.shared->records().recorded;
  return recording;
}

cudaError_t record(const std::shared_ptr<Event>& event, cudaStream_t handle, unsigned flags) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  const auto stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const bool external = (flags & cudaEventRecordExternal) != 0U;
  if (captures::capturing(*stream)) {
    if (!external) return captures::record(*stream, *event);
    return submit(handle, record_work([event] {
                    const Recording recording = next_recording(*event);
                    event->recorded(recording);
                    reach(recording);
                    return cudaSuccess;
                  }));
  }
  if (external) return cudaErrorIllegalState;
  const Recording recording = next_recording(*event);
  const cudaError_t error = submit(handle, record_work([recording] {
                                     reach(recording);
                                     return cudaSuccess;
                                   }));
  if (error != cudaSuccess) return error;
  event->recorded(recording);
  captures::forget(*event);
  return cudaSuccess;
}

cudaError_t elapsed(float* milliseconds, const Event& start, const Event& end) {
  if (!start.has_times() || !end.has_times()) return cudaErrorInvalidResourceHandle;
  const Recording first = start.recording();
  const Recording last = end.recording();
  if (first.point == nullptr || last.point == nullptr) return cudaErrorInvalidResourceHandle;
  if (!first.reached() || !last.reached()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(last.point->time_ns() - first.point->time_ns()) / 1e6F;
  return cudaSuccess;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call("cudaEventCreate", [&] { return create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&] { return create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return release_call("cudaEventDestroy", [&] {
    return events().remove(handle) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord",
              [&] { return record(events().find(event), stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecordWithFlags", [&] { return record(events().find(event), stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", [&] {
    const auto event = events().find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t refused = captures::ask_about(*event)) return refused;
    return event->recording().reached() ? device_error() : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", [&] {
    const auto event = events().find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t refused = captures::ask_about(*event)) return refused;
    event->recording().wait();
    return device_error();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&] {
    const auto first = events().find(start);
    const auto last = events().find(end);
    if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
    return elapsed(milliseconds, *first, *last);
  });
}
