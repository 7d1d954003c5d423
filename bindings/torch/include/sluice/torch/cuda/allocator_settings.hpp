#pragma once

#include <optional>
#include <string>

namespace sluice::capture {

/// What the environment tells torch's allocator of device memory.
struct AllocatorSettings {
  /// The variable that counts: `PYTORCH_CUDA_ALLOC_CONF`, or else `PYTORCH_ALLOC_CONF`; empty if neither is
  /// set.
  std::string variable;
  /// `name:value,name:[value,value]`
  std::string text;
  /// `PYTORCH_NO_CUDA_MEMORY_CACHING` is not set.
  bool caches = true;

  [[nodiscard]] static AllocatorSettings of_environment();
  /// The last value of a setting.
  [[nodiscard]] std::optional<std::string> find(const std::string& name) const;
};

/// Refuses what captures cannot work with: `backend:cudaMallocAsync`, which has no memory that stays where it
/// is from one graph to the next; `graph_capture_record_stream_reuse`, which asks streams under capture what
/// they may not be asked; an allocator that does not cache. Others do not matter: expandable segments, too,
/// are divided into pools, and memory for other processes is Sluice's own, not torch's (PyTorch, "CUDA
/// semantics", on memory management and on graph capture).
/// @throws ConfigError naming the variable
void check_allocator(const AllocatorSettings& settings);

}  // namespace sluice::capture
