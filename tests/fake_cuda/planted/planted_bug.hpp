#pragma once

#include <cuda_runtime_api.h>

#include <span>

namespace planted {

/// A program that is correct, and wrong if its bug is planted. The correct one must never be reported, the
/// wrong one always.
struct PlantedBug {
  const char* name;
  void (*run)(bool planted);
};

/// Found by ThreadSanitizer, in a build that has it.
std::span<const PlantedBug> stream_bugs();
std::span<const PlantedBug> graph_bugs();
std::span<const PlantedBug> host_bugs();
/// Found by the fake device itself, in any build.
std::span<const PlantedBug> memory_bugs();
std::span<const PlantedBug> process_bugs();

/// Those of the program.
std::span<const std::span<const PlantedBug>> all_bugs();

/// Ends the program with status 2 unless the code is cudaSuccess.
void check(cudaError_t code);

/// Numbers an array of a scene has.
inline constexpr int kCount = 1024;
inline constexpr std::size_t kBytes = kCount * sizeof(int);

/// Two streams, an event, and a few arrays of numbers, pinned ones filled with zeros.
class Scene {
 public:
  Scene();
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  cudaEvent_t other_event = nullptr;
  int* device[3] = {};
  int* pinned[2] = {};

  /// `later` goes on behind what `earlier` has so far.
  void order(cudaStream_t earlier, cudaStream_t later) const;
  void to_host(int* to, const int* from, cudaStream_t stream) const;
  void to_device(int* to, const int* from, cudaStream_t stream) const;
};

/// The graph of what `enqueue` puts on the scene's first stream, ready to be launched.
template <typename Enqueue>
cudaGraphExec_t captured(const Scene& scene, Enqueue enqueue) {
  check(cudaStreamBeginCapture(scene.first, cudaStreamCaptureModeThreadLocal));
  enqueue();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(scene.first, &graph));
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0));
  check(cudaGraphDestroy(graph));
  return exec;
}

}  // namespace planted
