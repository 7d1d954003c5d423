#include <array>
#include <chrono>
#include <thread>

#include "planted_bug.hpp"
#include "unit/fake_cuda/number_kernels.hpp"

namespace planted {
namespace {

using fake_cuda_tests::count_up;

/// A copy is longer than the memory it goes to.
void copy_past_the_end(bool planted) {
  const Scene scene;
  int* small = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&small), kBytes / 2));
  static_cast<void>(cudaMemcpyAsync(small, scene.pinned[0], planted ? kBytes : kBytes / 2,
                                    cudaMemcpyHostToDevice, scene.first));
  check(cudaStreamSynchronize(scene.first));
  check(cudaFree(small));
}

/// A kernel writes past the end of its memory.
void kernel_past_the_end(bool planted) {
  const Scene scene;
  int* small = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&small), 10 * sizeof(int)));
  check(count_up(small, planted ? 11 : 10, 0, scene.first));
  check(cudaFree(small));
}

/// A kernel is launched with memory that was freed.
void kernel_on_freed_memory(bool planted) {
  const Scene scene;
  int* memory = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&memory), kBytes));
  if (planted) check(cudaFree(memory));
  static_cast<void>(count_up(memory, kCount, 0, scene.first));
  static_cast<void>(cudaStreamSynchronize(scene.first));
  if (!planted) check(cudaFree(memory));
}

void hold(void* /*nothing*/) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }

/// Pinned memory is freed under the copies that read it.
void pinned_freed_in_flight(bool planted) {
  const Scene scene;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, kBytes, cudaHostAllocDefault));
  // The copy cannot run before the memory is freed.
  check(cudaLaunchHostFunc(scene.first, hold, nullptr));
  scene.to_device(scene.device[0], static_cast<int*>(memory), scene.first);
  if (!planted) check(cudaStreamSynchronize(scene.first));
  check(cudaFreeHost(memory));
}

/// A graph uses memory of its own behind the node that frees it.
void graph_memory_used_after_its_free(bool planted) {
  const Scene scene;
  cudaGraphExec_t exec = captured(scene, [&] {
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, kBytes, scene.first));
    if (planted) check(cudaFreeAsync(memory, scene.first));
    check(cudaMemsetAsync(memory, 0, kBytes, scene.first));
    if (!planted) check(cudaFreeAsync(memory, scene.first));
  });
  check(cudaGraphLaunch(exec, scene.first));
  static_cast<void>(cudaStreamSynchronize(scene.first));
  static_cast<void>(cudaGraphExecDestroy(exec));
}

constexpr std::array kBugs = {
    PlantedBug{"copy_past_the_end", copy_past_the_end},
    PlantedBug{"kernel_past_the_end", kernel_past_the_end},
    PlantedBug{"kernel_on_freed_memory", kernel_on_freed_memory},
    PlantedBug{"pinned_freed_in_flight", pinned_freed_in_flight},
    PlantedBug{"graph_memory_used_after_its_free", graph_memory_used_after_its_free},
};

}  // namespace

std::span<const PlantedBug> memory_bugs() { return kBugs; }

}  // namespace planted
