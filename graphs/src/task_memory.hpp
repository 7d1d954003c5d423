#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "difference.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/cuda/stage.hpp"

namespace sluice::graphs {

/// What a task may change: all of its slot, and the state of its stage; with a copy that it can be put back
/// to.
class TaskMemory {
 public:
  using Contents = std::vector<std::byte>;

  /// @throws CudaError
  TaskMemory(const cuda::SlotBuffers& slot, std::span<const cuda::DeviceSpan> state);

  void save(cudaStream_t stream) const;
  void restore(cudaStream_t stream) const;
  void restore_state(cudaStream_t stream) const;
  /// As the memory is when the stream gets there. Waits for that.
  [[nodiscard]] Contents contents(cudaStream_t stream) const;
  [[nodiscard]] Difference difference(const Contents& expected, const Contents& found) const;

 private:
  struct Region {
    cuda::DeviceSpan memory;
    std::string name;
    bool state = false;
  };

  void add(const std::vector<std::vector<cuda::SlotTensor>>& edges, const char* name);
  void add(const cuda::DeviceSpan& memory, std::string name, bool state);

  std::vector<Region> regions_;
  std::size_t bytes_ = 0;
  cuda::DeviceMemory copy_;
};

}  // namespace sluice::graphs
