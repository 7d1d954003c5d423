#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "address_space.hpp"

namespace fakecuda {

/// Of cuStreamWriteValue32 and its like; the runtime's headers have no name for it.
constexpr auto kBatchMemoryOperation = static_cast<cudaGraphNodeType>(12);

struct Access {
  Location where;
  std::size_t bytes = 0;
  bool write = false;
};

/// What a launched kernel was given.
struct KernelCall {
  const void* function = nullptr;
  dim3 grid;
  dim3 block;
  unsigned shared_bytes = 0;
  std::vector<std::vector<char>> arguments;
  /// One for each of `arguments`, as kernels get them.
  std::vector<void*> pointers;
};

/// What one operation of a stream, or one node of a graph, does. Shared by all launches of the node.
struct Work {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::string label;
  /// Bytes it is known to read and write: not those of kernels.
  std::vector<Access> accesses;
  /// Run hidden from ThreadSanitizer: what the program asked for must be exposed.
  std::function<cudaError_t()> run;
  /// Of a memory node.
  std::shared_ptr<Allocation> memory;
  /// Of a kernel node.
  std::shared_ptr<KernelCall> kernel;
  /// Run even when the device is unusable, so that nobody waits for ever.
  bool always = false;
};

/// Runs it where it stands in its stream, after a random delay. What it does wrong is reported and leaves the
/// device unusable.
void execute(const Work& work);

/// Counts the memory that enqueued work uses.
void begin_use(const Work& work);
void end_use(const Work& work);

}  // namespace fakecuda
