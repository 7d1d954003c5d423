#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sluice/graphs/random_words.hpp"
#include "sluice/host/stage.hpp"

namespace sluice::capture {

/// The random state of a slot's microbatch.
struct Draws {
  graphs::RandomState state;
  /// The same on the device, where captured work reads it.
  graphs::RandomState* words = nullptr;
  /// Numbers of the state that earlier passes used up.
  std::uint64_t used = 0;
};

/// Where a chunk's torch code runs. Tests have one on the host.
class TorchDevice {
 public:
  virtual ~TorchDevice() = default;

  /// While it lives, what torch does in this thread goes on a stream, its random numbers come from `Draws`,
  /// and what it allocates on a stream under capture from the slot's own pool.
  class Work {
   public:
    virtual ~Work() = default;
    /// `Draws::used`, and those used up since.
    [[nodiscard]] virtual std::uint64_t used() const = 0;
  };

  [[nodiscard]] virtual c10::Device device() const = 0;
  /// @throws CudaError
  [[nodiscard]] virtual bool captures(cudaStream_t stream) const = 0;
  /// @param slot tells the slots apart
  [[nodiscard]] virtual std::unique_ptr<Work> begin(cudaStream_t stream, const void* slot,
                                                    const Draws& draws) = 0;

  /// Makes what comes on `stream` wait for what is on `other` now.
  virtual void follow(cudaStream_t stream, cudaStream_t other) = 0;

  /// Enqueues the random state of the microbatch to `words`, and says which it is.
  virtual graphs::RandomState write(const host::TaskContext& context, graphs::RandomState* words,
                                    cudaStream_t stream) = 0;
  /// Makes host memory for so many bytes of data a slot.
  virtual void reserve(std::size_t data_bytes) = 0;
  /// That of one slot, not written while it is copied.
  [[nodiscard]] virtual std::span<std::byte> staging(Slot slot) = 0;
  /// Enqueues a copy from `staging`.
  virtual void copy(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) = 0;
  /// Copies back, and waits.
  virtual void read(std::span<std::byte> to, const std::byte* from, cudaStream_t stream) const = 0;

  [[nodiscard]] virtual std::uint64_t pool_bytes() const = 0;
};

}  // namespace sluice::capture
