#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::graphs {

/// Measures the memory that graphs of the current device allocate while it exists; nothing if not `wanted`.
class GraphMemoryMeter {
 public:
  /// @throws CudaError
  explicit GraphMemoryMeter(bool wanted);

  /// Most bytes that graphs used at a time, above what they used before.
  /// @throws CudaError
  [[nodiscard]] std::size_t highest() const;
  /// Bytes that were set aside for graphs, above those before.
  /// @throws CudaError
  [[nodiscard]] std::size_t reserved() const;

 private:
  bool wanted_;
  int device_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t reserved_ = 0;
};

}  // namespace sluice::graphs
