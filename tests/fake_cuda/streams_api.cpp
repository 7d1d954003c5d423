#include <algorithm>

#include "call.hpp"
#include "capture.hpp"
#include "controls.hpp"
#include "device.hpp"
#include "event.hpp"

namespace fakecuda {
namespace {

/// As on current devices: lower numbers go first.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

cudaError_t create(cudaStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *handle = streams().add(Stream::start(current_device(), flags, priority));
  return cudaSuccess;
}

template <typename Body>
cudaError_t with_stream(cudaStream_t handle, Body body) {
  const auto stream = find_stream(handle);
  return stream == nullptr ? cudaErrorInvalidResourceHandle : body(stream);
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call("cudaStreamCreate", [&] { return create(stream, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&] { return create(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", [&] { return create(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return release_call("cudaStreamDestroy", [&] {
    const auto stream = streams().remove(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    captures::abandon(*stream);
    stream->close();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&] {
    return with_stream(handle, [](const auto& stream) {
      if (const cudaError_t refused = captures::ask_about(*stream)) return refused;
      if (const auto last = stream->last()) last->wait();
      return device_error();
    });
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&] {
    return with_stream(handle, [](const auto& stream) {
      if (const cudaError_t refused = captures::ask_about(*stream)) return refused;
      const auto last = stream->last();
      if (last != nullptr && !last->reached()) return cudaErrorNotReady;
      return device_error();
    });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  return call("cudaStreamWaitEvent", [&] {
    const auto event = events().find(event_handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventWaitExternal) return cudaErrorInvalidValue;
    return with_stream(handle, [&](const auto& stream) {
      const bool capturing = captures::capturing(*stream);
      const bool external = (flags & cudaEventWaitExternal) != 0U;
      if (external && !capturing) return cudaErrorIllegalState;
      if (!external && (capturing || captures::captured(*event))) return captures::wait(stream, *event);
      auto work = std::make_shared<Work>();
      work->type = cudaGraphNodeTypeWaitEvent;
      work->label = "wait for an event";
      work->always = true;
      if (external) {
        work->run = [event] {
          event->recording().wait();
          return cudaSuccess;
        };
      } else {
        work->run = [recording = event->recording()] {
          recording.wait();
          return cudaSuccess;
        };
      }
      return submit(handle, std::move(work));
    });
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call("cudaStreamGetPriority", [&] {
    return with_stream(handle, [&](const auto& stream) {
      *priority = stream->priority();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return call("cudaStreamGetFlags", [&] {
    return with_stream(handle, [&](const auto& stream) {
      *flags = stream->flags();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return call("cudaStreamGetId", [&] {
    return with_stream(handle, [&](const auto& stream) {
      *id = stream->id();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call("cudaStreamGetDevice", [&] {
    return with_stream(handle, [&](const auto& stream) {
      *device = stream->device();
      return cudaSuccess;
    });
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&] {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call("cudaLaunchHostFunc", [&] {
    if (function == nullptr) return cudaErrorInvalidValue;
    auto work = std::make_shared<Work>();
    work->type = cudaGraphNodeTypeHost;
    work->label = "host function";
    work->run = [function, argument] {
      const InHostFunction in_host_function;
      const Exposed exposed;
      function(argument);
      return cudaSuccess;
    };
    return submit(handle, std::move(work));
  });
}

void fakecuda_hang(cudaStream_t handle) {
  const Hidden hidden;
  if (const auto stream = find_stream(handle)) stream->hang(true);
}

void fakecuda_resume(cudaStream_t handle) {
  const Hidden hidden;
  if (const auto stream = find_stream(handle)) stream->hang(false);
}
