#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "chunk_code.hpp"
#include "sluice/torch/cuda/torch_stage.hpp"
#include "torch_device.hpp"

namespace sluice::capture {

/// Runs a chunk's torch code as tasks on a device's streams, call by call or under capture.
///
/// A slot keeps the autograd graph of its last forward call by call and, for each set of shapes, that of the
/// last captured one, whose saved tensors each replay of it writes again. Other passes work with the one that
/// ran: a graph that was launched called nothing here since its `prepare_task`.
class AutogradStage final : public TorchStage {
 public:
  AutogradStage(std::unique_ptr<TorchDevice> device, std::unique_ptr<ChunkCode> code);
  ~AutogradStage() override;

  [[nodiscard]] cuda::ChunkMemory memory() const override;
  [[nodiscard]] std::span<const cuda::DeviceSpan> state() const override { return state_; }
  [[nodiscard]] cuda::Replay replay(Pass pass, bool whole, const cuda::TaskBuffers& buffers) const override;
  void prepare_task(const host::TaskContext& context, Pass pass, const cuda::TaskBuffers& buffers,
                    cudaStream_t stream) override;
  void forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;
  void backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) override;
  void weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) override;

  [[nodiscard]] std::vector<TrainedTensor> trained() const override { return code_->trained(); }
  void zero_gradients(cudaStream_t stream) override;
  [[nodiscard]] double loss(const cuda::SlotBuffers& slot, cudaStream_t stream) const override;
  [[nodiscard]] std::uint64_t pool_bytes() const override { return device_->pool_bytes(); }

 private:
  /// At the beginning of a slot's saved memory; the microbatch's data follows.
  struct Words {
    graphs::RandomState random;
    alignas(std::uint64_t) std::byte loss[sizeof(double)];
    std::byte unused[40];
  };
  static_assert(sizeof(Words) == 64);

  enum class Made { ByCalls, ByGraph };

  /// A forward, and what is known of its other passes.
  struct Kept {
    std::vector<TensorShape> shapes;
    std::uint64_t variant = 0;
    /// The stream its memory was allocated for.
    cudaStream_t home = nullptr;
    std::shared_ptr<ChunkRun> run;
    /// Random numbers that it used up.
    std::uint64_t used = 0;
    /// Of a captured split backward.
    std::function<void()> left;
    bool captured_whole = false;
    bool captured_split = false;
    bool captured_weight_grad = false;
  };
  struct SlotState {
    graphs::RandomState random;
    std::uint64_t variant = 0;
    bool forward_only = false;
    Made forward = Made::ByGraph;
    Made backward = Made::ByGraph;
    Kept by_calls;
    /// Of a backward call by call.
    std::function<void()> left_by_calls;
    /// By sets of shapes.
    std::vector<Kept> by_graph;
  };

  [[nodiscard]] static Words* words_of(const cuda::SlotBuffers& slot);
  [[nodiscard]] SlotState& state_of(const cuda::TaskBuffers& buffers) { return slots_[buffers.slot.saved]; }
  /// The forward that ran last.
  [[nodiscard]] static Kept& kept(SlotState& slot, const cuda::SlotBuffers& buffers);
  /// Calls with torch set up for the task; what torch throws becomes an error of ours.
  /// @param used random numbers of the microbatch, before and after
  void work(const Kept& kept, std::uint64_t& used, const cuda::TaskBuffers& buffers, const SlotState& slot,
            cudaStream_t stream, const std::function<void()>& code);
  void store_results(cuda::SlotBuffers& buffers, const std::vector<at::Tensor>& results);
  void store_input_grads(cuda::SlotBuffers& buffers, const std::vector<at::Tensor>& gradients);
  void begin_captures_on(cudaStream_t stream);

  // The tensors of the slots live in the device's pools, so they go first.
  std::unique_ptr<TorchDevice> device_;
  std::unique_ptr<ChunkCode> code_;
  std::vector<cuda::DeviceSpan> state_;
  cudaStream_t captured_on_ = nullptr;
  /// By the address of their saved memory.
  std::map<const std::byte*, SlotState> slots_;
};

}  // namespace sluice::capture
