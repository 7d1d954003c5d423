#include <cuda.h>

#include <array>
#include <atomic>
#include <thread>

#include "planted_bug.hpp"
#include "unit/fake_cuda/number_kernels.hpp"

namespace planted {
namespace {

using fake_cuda_tests::count_up;

volatile int sink = 0;

/// The stream writes the word when it gets there, as Sluice's flags are written.
void write_value(cudaStream_t stream, int* address, unsigned value) {
  using WriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  void* function = nullptr;
  check(
      cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function, 12000, cudaEnableDefault, nullptr));
  const auto write = reinterpret_cast<WriteValue>(function);
  check(static_cast<cudaError_t>(
      write(stream, reinterpret_cast<CUdeviceptr>(address), value, CU_STREAM_WRITE_VALUE_DEFAULT)));
}

void wait_for_flag(int* flag, std::memory_order order) {
  while (std::atomic_ref(*flag).load(order) == 0) std::this_thread::yield();
}

/// The host reads a result without waiting for the copy.
void missing_synchronize(bool planted) {
  const Scene scene;
  check(count_up(scene.device[0], kCount, 1, scene.first));
  scene.to_host(scene.pinned[0], scene.device[0], scene.first);
  if (!planted) check(cudaStreamSynchronize(scene.first));
  sink = scene.pinned[0][7];
}

/// The answer "not ready" is taken for an answer that it is.
void query_ignored(bool planted) {
  const Scene scene;
  scene.to_host(scene.pinned[0], scene.device[0], scene.first);
  check(cudaEventRecord(scene.event, scene.first));
  while (!planted && cudaEventQuery(scene.event) == cudaErrorNotReady) std::this_thread::yield();
  sink = scene.pinned[0][7];
}

/// The host overwrites the pinned source of a copy that has not run.
void pinned_source_overwritten(bool planted) {
  const Scene scene;
  scene.to_device(scene.device[0], scene.pinned[0], scene.first);
  if (!planted) check(cudaStreamSynchronize(scene.first));
  scene.pinned[0][5] = 3;
}

/// The host sees a flag in mapped memory by a load that orders nothing, and reads what the flag stands for.
void flag_without_acquire(bool planted) {
  const Scene scene;
  check(count_up(scene.pinned[0], kCount, 1, scene.first));
  write_value(scene.first, scene.pinned[1], 1);
  wait_for_flag(scene.pinned[1], planted ? std::memory_order_relaxed : std::memory_order_acquire);
  sink = scene.pinned[0][9];
}

/// The flag is written in front of the work that it should stand for.
void flag_before_kernel(bool planted) {
  const Scene scene;
  if (planted) write_value(scene.first, scene.pinned[1], 1);
  check(count_up(scene.pinned[0], kCount, 1, scene.first));
  if (!planted) write_value(scene.first, scene.pinned[1], 1);
  wait_for_flag(scene.pinned[1], std::memory_order_acquire);
  sink = scene.pinned[0][9];
}

/// A host function and the host count in the same variable.
void host_function_race(bool planted) {
  const Scene scene;
  static int count = 0;
  check(cudaLaunchHostFunc(
      scene.first, [](void* number) { ++*static_cast<int*>(number); }, &count));
  if (!planted) check(cudaStreamSynchronize(scene.first));
  ++count;
}

/// The host uses what one stream made after it has waited for another.
void wrong_stream_synchronized(bool planted) {
  const Scene scene;
  scene.to_host(scene.pinned[0], scene.device[0], scene.first);
  check(cudaMemsetAsync(scene.device[1], 0, kBytes, scene.second));
  check(cudaStreamSynchronize(planted ? scene.second : scene.first));
  sink = scene.pinned[0][7];
}

constexpr std::array kBugs = {
    PlantedBug{"missing_synchronize", missing_synchronize},
    PlantedBug{"query_ignored", query_ignored},
    PlantedBug{"pinned_source_overwritten", pinned_source_overwritten},
    PlantedBug{"flag_without_acquire", flag_without_acquire},
    PlantedBug{"flag_before_kernel", flag_before_kernel},
    PlantedBug{"host_function_race", host_function_race},
    PlantedBug{"wrong_stream_synchronized", wrong_stream_synchronized},
};

}  // namespace

std::span<const PlantedBug> host_bugs() { return kBugs; }

}  // namespace planted
