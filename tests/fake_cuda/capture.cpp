#include "capture.hpp"

#include <algorithm>
#include <atomic>
#include <set>

namespace fakecuda {
namespace captures {
namespace {

/// How many are under way: most calls look no further.
std::atomic<int> under_way{0};

std::set<std::shared_ptr<Capture>>& all() {
  static auto& value = *new std::set<std::shared_ptr<Capture>>;
  return value;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool forbids(const Capture& capture) {
  if (capture.mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
}

/// A stream of the capture and the device's legacy stream wait for each other.
bool legacy_waits_for(const Capture& capture, int device) {
  return std::any_of(capture.members.begin(), capture.members.end(), [&](const auto& member) {
    return member->device() == device && member->waits_for_legacy();
  });
}

void leave(Stream& stream) {
  stream.capture.reset();
  stream.capture_tail.clear();
}

}  // namespace

std::mutex& mutex() {
  static auto& value = *new std::mutex;
  return value;
}

cudaError_t begin(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex());
  if (stream == legacy_stream(stream->device())) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  static std::uint64_t begun = 0;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = ++begun;
  capture->origin = stream.get();
  capture->members.push_back(stream);
  stream->capture = capture;
  stream->capture_tail.clear();
  all().insert(capture);
  ++under_way;
  return cudaSuccess;
}

cudaError_t end(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>& graph) {
  const std::lock_guard lock(mutex());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream.get()) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = std::all_of(capture->members.begin(), capture->members.end(), [&](const auto& member) {
    return capture->graph->reaches(stream->capture_tail, member->capture_tail);
  });
  for (const auto& member : capture->members) leave(*member);
  all().erase(capture);
  --under_way;
  if (capture->handle != nullptr) graphs().remove(capture->handle);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  graph = capture->graph;
  return cudaSuccess;
}

cudaError_t unsafe_call() {
  if (under_way.load() == 0 || thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const std::lock_guard lock(mutex());
  cudaError_t result = cudaSuccess;
  for (const auto& capture : all()) {
    if (!forbids(*capture)) continue;
    capture->invalid = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t ask_about(Stream& stream) {
  if (under_way.load() == 0) return cudaSuccess;
  {
    const std::lock_guard lock(mutex());
    if (stream.capture != nullptr) {
      stream.capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return unsafe_call();
}

cudaError_t ask_about_device(int device) {
  if (under_way.load() == 0) return cudaSuccess;
  const std::lock_guard lock(mutex());
  cudaError_t result = cudaSuccess;
  for (const auto& capture : all()) {
    const bool here = std::any_of(capture->members.begin(), capture->members.end(),
                                  [&](const auto& member) { return member->device() == device; });
    if (!here) continue;
    capture->invalid = true;
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t ask_about(Event& event) {
  if (captured(event)) return cudaErrorCapturedEvent;
  return unsafe_call();
}

bool capturing(Stream& stream) {
  if (under_way.load() == 0) return false;
  const std::lock_guard lock(mutex());
  return stream.capture != nullptr;
}

cudaError_t add(Stream& stream, std::shared_ptr<const Work> work) {
  const std::lock_guard lock(mutex());
  if (stream.capture == nullptr) return cudaErrorIllegalState;
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  stream.capture_tail = {stream.capture->graph->add(std::move(work), stream.capture_tail)};
  return cudaSuccess;
}

cudaError_t record(Stream& stream, Event& event) {
  const std::lock_guard lock(mutex());
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.capture_tail = stream.capture_tail;
  return cudaSuccess;
}

cudaError_t wait(const std::shared_ptr<Stream>& stream, Event& event) {
  const std::lock_guard lock(mutex());
  const std::shared_ptr<Capture> from = event.capture.lock();
  if (from == nullptr) {
    // Recorded before the capture or outside of it: the graph would depend on what is not in it.
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (from->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream->capture != nullptr && stream->capture != from) {
    from->invalid = stream->capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream->capture == nullptr) {
    stream->capture = from;
    stream->capture_tail.clear();
    from->members.push_back(stream);
  }
  auto& tail = stream->capture_tail;
  tail.insert(tail.end(), event.capture_tail.begin(), event.capture_tail.end());
  return cudaSuccess;
}

bool captured(Event& event) {
  if (under_way.load() == 0) return false;
  const std::lock_guard lock(mutex());
  const auto capture = event.capture.lock();
  return capture != nullptr && all().count(capture) > 0;
}

void forget(Event& event) {
  const std::lock_guard lock(mutex());
  event.capture.reset();
}

cudaError_t ask_about_legacy(const Stream& stream) {
  if (under_way.load() == 0) return cudaSuccess;
  const std::lock_guard lock(mutex());
  const bool any = std::any_of(all().begin(), all().end(), [&](const auto& capture) {
    return legacy_waits_for(*capture, stream.device());
  });
  return any ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

cudaError_t use_legacy(const Stream& stream) {
  const cudaError_t refused = ask_about_legacy(stream);
  if (refused == cudaSuccess) return cudaSuccess;
  const std::lock_guard lock(mutex());
  for (const auto& capture : all()) {
    if (legacy_waits_for(*capture, stream.device())) capture->invalid = true;
  }
  return refused;
}

void abandon(Stream& stream) {
  if (under_way.load() == 0) return;
  const std::lock_guard lock(mutex());
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  if (capture->origin != &stream) return;
  // Nobody can end it any more.
  for (const auto& member : capture->members) leave(*member);
  all().erase(capture);
  --under_way;
}

cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

}  // namespace captures

cudaError_t submit(cudaStream_t handle, std::shared_ptr<const Work> work) {
  const auto stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (captures::capturing(*stream)) return captures::add(*stream, std::move(work));
  if (stream == legacy_stream(stream->device())) {
    if (const cudaError_t refused = captures::use_legacy(*stream)) return refused;
  }
  order_with_legacy(*stream);
  stream->push(std::move(work));
  return cudaSuccess;
}

}  // namespace fakecuda
