#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <memory>

#include "sluice/host/payload.hpp"
#include "sluice/transport.hpp"

namespace sluice::ucx {

/// Where received tensors lie. Its calls come from the rank's own thread, but for the last `release`.
class ReceiveMemory {
 public:
  /// Least alignment of what `allocate` returns, in bytes.
  static constexpr std::size_t kAlignment = 64;

  virtual ~ReceiveMemory() = default;

  /// The device that the tensors are said to be on.
  [[nodiscard]] virtual DLDevice device() const noexcept = 0;
  /// @param bytes more than 0
  /// @throws Error or std::bad_alloc if there is no more
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory, std::size_t bytes) noexcept = 0;
};

/// Memory of this process.
class HostMemory final : public ReceiveMemory {
 public:
  [[nodiscard]] DLDevice device() const noexcept override { return {kDLCPU, 0}; }
  [[nodiscard]] void* allocate(std::size_t bytes) override;
  void release(void* memory, std::size_t bytes) noexcept override;
};

/// Tensors whose memory is used again when they are deleted. Blocks have sizes in steps of a quarter of a
/// power of two and are kept until the pool and all its tensors are gone.
///
/// One thread takes; tensors may be deleted on any thread, also after the pool. Neither takes a lock.
class TensorPool {
 public:
  explicit TensorPool(std::shared_ptr<ReceiveMemory> memory);
  ~TensorPool();
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  /// A contiguous tensor with undefined elements.
  [[nodiscard]] host::TensorPtr take(const TensorShape& shape);

  /// Blocks allocated so far.
  [[nodiscard]] std::size_t blocks() const noexcept;

 private:
  struct Block;
  struct Shared;

  std::shared_ptr<Shared> shared_;
};

}  // namespace sluice::ucx
