#include <array>

#include "planted_bug.hpp"
#include "unit/fake_cuda/number_kernels.hpp"

namespace planted {
namespace {

using fake_cuda_tests::add;
using fake_cuda_tests::count_up;
using fake_cuda_tests::scale;

/// A copy on another stream reads what a copy wrote, without waiting for its event.
void missing_wait_event(bool planted) {
  const Scene scene;
  scene.to_device(scene.device[0], scene.pinned[0], scene.first);
  if (!planted) scene.order(scene.first, scene.second);
  scene.to_host(scene.pinned[1], scene.device[0], scene.second);
}

/// A copy out is not ordered behind the kernel that fills its source.
void copy_before_kernel(bool planted) {
  const Scene scene;
  if (planted) scene.order(scene.first, scene.second);
  check(count_up(scene.device[0], kCount, 1, scene.first));
  if (!planted) scene.order(scene.first, scene.second);
  scene.to_host(scene.pinned[0], scene.device[0], scene.second);
}

/// A slot's next microbatch is written while the send of the one before still reads it.
void slot_reused_too_early(bool planted) {
  const Scene scene;
  check(count_up(scene.device[0], kCount, 1, scene.first));
  scene.order(scene.first, scene.second);
  scene.to_host(scene.pinned[0], scene.device[0], scene.second);
  if (!planted) scene.order(scene.second, scene.first);
  check(count_up(scene.device[0], kCount, 2, scene.first));
}

/// Two streams add to the same gradients.
void accumulators_shared(bool planted) {
  const Scene scene;
  check(cudaMemsetAsync(scene.device[0], 0, kBytes, scene.first));
  check(count_up(scene.device[1], kCount, 1, scene.first));
  scene.order(scene.first, scene.second);
  check(add(scene.device[0], scene.device[1], scene.device[0], kCount, scene.first));
  if (!planted) scene.order(scene.first, scene.second);
  check(add(scene.device[0], scene.device[1], scene.device[0], kCount, scene.second));
}

/// Gradients are zeroed on one stream while another still reads them.
void memset_race(bool planted) {
  const Scene scene;
  check(count_up(scene.device[0], kCount, 1, scene.first));
  scene.to_host(scene.pinned[0], scene.device[0], scene.first);
  if (!planted) scene.order(scene.first, scene.second);
  check(cudaMemsetAsync(scene.device[0], 0, kBytes, scene.second));
}

/// The event is recorded before the work that it should cover.
void event_recorded_too_early(bool planted) {
  const Scene scene;
  if (planted) check(cudaEventRecord(scene.event, scene.first));
  check(count_up(scene.device[0], kCount, 1, scene.first));
  if (!planted) check(cudaEventRecord(scene.event, scene.first));
  check(cudaStreamWaitEvent(scene.second, scene.event, 0));
  check(scale(scene.device[0], kCount, 3, scene.second));
}

/// The memory is freed in the order of a stream that does not wait for its last reader.
void free_in_flight(bool planted) {
  const Scene scene;
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, kBytes, scene.first));
  check(cudaMemsetAsync(memory, 1, kBytes, scene.first));
  scene.order(scene.first, scene.second);
  scene.to_host(scene.pinned[0], static_cast<int*>(memory), scene.second);
  if (!planted) scene.order(scene.second, scene.first);
  check(cudaFreeAsync(memory, scene.first));
}

constexpr std::array kBugs = {
    PlantedBug{"missing_wait_event", missing_wait_event},
    PlantedBug{"copy_before_kernel", copy_before_kernel},
    PlantedBug{"slot_reused_too_early", slot_reused_too_early},
    PlantedBug{"accumulators_shared", accumulators_shared},
    PlantedBug{"memset_race", memset_race},
    PlantedBug{"event_recorded_too_early", event_recorded_too_early},
    PlantedBug{"free_in_flight", free_in_flight},
};

}  // namespace

std::span<const PlantedBug> stream_bugs() { return kBugs; }

}  // namespace planted
