#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "graph_pool.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/graphs/random_words.hpp"
#include "sluice/pipeline.hpp"
#include "torch_device.hpp"

namespace sluice::capture {

/// Torch's work on a CUDA device.
class CudaDevice final : public TorchDevice {
 public:
  struct Options {
    int ordinal = 0;
    std::uint32_t slots = 1;
    std::uint64_t seed = 1;
    Chunk chunk = 0;
  };

  /// @throws ConfigError naming `device`, `slots` or a setting of torch's allocator; CudaError
  explicit CudaDevice(const Options& options);
  ~CudaDevice() override;

  [[nodiscard]] c10::Device device() const override;
  [[nodiscard]] bool captures(cudaStream_t stream) const override { return capture_of(stream).has_value(); }
  [[nodiscard]] std::unique_ptr<Work> begin(cudaStream_t stream, const void* slot,
                                            const Draws& draws) override;
  void follow(cudaStream_t stream, cudaStream_t other) override;
  graphs::RandomState write(const host::TaskContext& context, graphs::RandomState* words,
                            cudaStream_t stream) override;
  void reserve(std::size_t data_bytes) override;
  [[nodiscard]] std::span<std::byte> staging(Slot slot) override;
  void copy(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) override;
  void read(std::span<std::byte> to, const std::byte* from, cudaStream_t stream) const override;
  [[nodiscard]] std::uint64_t pool_bytes() const override;

 private:
  struct Generators;
  class CudaWork;

  void check_slot(Slot slot) const;

  Options options_;
  graphs::RandomWords words_;
  cuda::MappedMemory staging_;
  std::size_t data_bytes_ = 0;
  cuda::Event followed_;
  std::unique_ptr<Generators> generators_;
  /// By what tells the slots apart.
  std::map<const void*, GraphPool> pools_;
};

}  // namespace sluice::capture
