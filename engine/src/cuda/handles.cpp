#include "sluice/cuda/handles.hpp"

#include "sluice/cuda/cuda_error.hpp"

namespace sluice::cuda {

Stream make_stream(Priority priority) {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for the priorities of streams");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == Priority::Highest ? highest : lowest),
        "creating a stream");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  return Event(event);
}

}  // namespace sluice::cuda
