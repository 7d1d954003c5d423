#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

namespace sluice::capture {

/// The number of the capture that a stream takes part in.
/// @throws CudaError
[[nodiscard]] std::optional<std::uint64_t> capture_of(cudaStream_t stream);

/// Memory that torch's allocator keeps for the captures of one slot, so that no other work is given what a
/// replay writes to. What a slot's captures free, its later ones may use: its passes run one after the other.
class GraphPool {
 public:
  explicit GraphPool(c10::DeviceIndex device);
  /// Precondition: no graph that was captured with it is launched again. Torch frees the memory when the last
  /// tensor in it has gone.
  ~GraphPool();
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;

  /// While it lives, what streams of the capture allocate is the pool's.
  class Routing {
   public:
    Routing(GraphPool& pool, std::uint64_t capture);
    ~Routing();
    Routing(const Routing&) = delete;
    Routing& operator=(const Routing&) = delete;

   private:
    GraphPool& pool_;
  };

  /// Taken from the device.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
  /// Torch counts the captures that use a pool.
  std::uint32_t uses_ = 0;
};

}  // namespace sluice::capture
