#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/scalar_branches.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::test {

/// ArithmeticStage on a device: computes the same doubles, to the last bit.
class DeviceArithmeticStage final : public cuda::Stage {
 public:
  /// The work of a pass.
  enum class Work {
    Straight,  ///< a few kernels in a row
    Branched,  ///< more than twenty operations in three branches
  };

  /// On the calling thread's device.
  DeviceArithmeticStage(const Pipeline& pipeline, Chunk chunk, Work work = Work::Straight);

  [[nodiscard]] cuda::ChunkMemory memory() const override;
  [[nodiscard]] std::span<const cuda::DeviceSpan> state() const override { return state_; }
  void prepare_task(const host::TaskContext& context, Pass pass, const cuda::TaskBuffers& buffers,
                    cudaStream_t stream) override;
  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;
  void backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) override;
  void weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;

  /// One step of gradient descent. No task may be under way.
  void step();

  [[nodiscard]] double weight() const noexcept { return host_weight_; }

 private:
  /// Kept from a microbatch's forward to its weight gradient.
  struct Saved {
    double input;
    double output;
    double output_grad;
  };

  /// The same numbers, where the work of a pass shall find them.
  [[nodiscard]] ScalarBranches::Numbers on_their_way(const ScalarBranches::Numbers& numbers,
                                                     const cuda::TaskBuffers& buffers,
                                                     cudaStream_t stream) const;
  [[nodiscard]] double* weight_on_device() const noexcept {
    return reinterpret_cast<double*>(parameters_.data());
  }
  [[nodiscard]] double* gradient() const noexcept { return weight_on_device() + 1; }
  static Saved* saved(const cuda::TaskBuffers& buffers) {
    return reinterpret_cast<Saved*>(buffers.slot.saved);
  }

  Chunk chunk_;
  bool source_;
  bool sink_;
  double host_weight_;
  cuda::Stream stream_ = cuda::make_stream();
  /// The weight, then its gradient.
  cuda::DeviceMemory parameters_{2 * sizeof(double), "a weight and its gradient"};
  std::array<cuda::DeviceSpan, 1> state_;
  /// Null for straight work.
  std::unique_ptr<ScalarBranches> branches_;
};

/// What every edge of such stages carries: one double.
[[nodiscard]] std::vector<cuda::EdgeLayout> arithmetic_layouts(const Pipeline& pipeline);

}  // namespace sluice::test
