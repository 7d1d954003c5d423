#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "event.hpp"
#include "graph.hpp"
#include "stream.hpp"

namespace fakecuda {

/// A capture under way.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  cudaGraph_t handle = nullptr;  ///< made when the program first asks for the unfinished graph
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::uint64_t id = 0;
  Stream* origin = nullptr;
  std::vector<std::shared_ptr<Stream>> members;
  bool invalid = false;
};

/// What the calling thread may do while streams are captured, and what calls become on a capturing stream.
///
/// The rules are those of the runtime's documentation of cudaStreamBeginCapture and
/// cudaThreadExchangeStreamCaptureMode.
namespace captures {

cudaError_t begin(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode);
/// @param graph out; null if it fails
cudaError_t end(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>& graph);

/// Forbids what must not be done while streams are captured, such as an allocation: by the calling thread's
/// mode and the captures'. A call that is forbidden invalidates the captures that forbid it.
[[nodiscard]] cudaError_t unsafe_call();
/// To wait for or ask about a stream: forbidden on one being captured, and else an unsafe call.
[[nodiscard]] cudaError_t ask_about(Stream& stream);
/// To wait for all of the device: forbidden while one of its streams is captured.
[[nodiscard]] cudaError_t ask_about_device(int device);
[[nodiscard]] cudaError_t ask_about(Event& event);

/// A stream is being captured (also if that has become invalid).
[[nodiscard]] bool capturing(Stream& stream);
/// Makes the work a node behind the stream's last ones.
cudaError_t add(Stream& stream, std::shared_ptr<const Work> work);
cudaError_t record(Stream& stream, Event& event);
/// Joins the event's capture, or adds what the event stands for to what the stream's next node follows.
cudaError_t wait(const std::shared_ptr<Stream>& stream, Event& event);
[[nodiscard]] bool captured(Event& event);
/// The event is recorded outside of a capture.
void forget(Event& event);
/// The legacy stream must not be used while a stream that waits for it is captured; to ask whether it is
/// captured is refused too, and breaks nothing.
[[nodiscard]] cudaError_t ask_about_legacy(const Stream& stream);
[[nodiscard]] cudaError_t use_legacy(const Stream& stream);
/// A capturing stream is destroyed.
void abandon(Stream& stream);

cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode);

/// Guards all captures, and the streams' and events' part in them.
std::mutex& mutex();

}  // namespace captures

/// Puts work on a stream: on its queue, or as a node into the graph that it is captured into.
cudaError_t submit(cudaStream_t stream, std::shared_ptr<const Work> work);

}  // namespace fakecuda
