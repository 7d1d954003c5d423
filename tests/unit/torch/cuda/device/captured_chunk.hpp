#pragma once

#include <ATen/ATen.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/eager_code.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/capture_target.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/torch/cuda/torch_stage.hpp"

namespace sluice::capture::test {

/// Why no test can run here; empty if one can.
inline std::string why_no_device() {
  try {
    cuda::use_device(0);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

/// For tests that need a device.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// The middle of a chain of three, or its end, on a device: its memory, its code, and a cache in front of it.
class CapturedChunk {
 public:
  static constexpr Microbatch kMicrobatches = 4;

  CapturedChunk(graphs::CaptureTarget target, std::uint32_t slots, bool split,
                graphs::GraphCache::Options options = {})
      : target_(std::move(target)),
        pipeline_(Pipeline::chain(3, kMicrobatches, split)),
        chunk_(target_.inputs.empty()    ? 0
               : target_.outputs.empty() ? 2
                                         : 1),
        stream_(cuda::make_stream()) {
    std::vector<cuda::EdgeLayout> layouts(pipeline_.edges().size());
    if (chunk_ > 0) layouts[chunk_ - 1U] = target_.inputs;
    if (chunk_ < 2) layouts[chunk_] = target_.outputs;
    const std::vector<cuda::ChunkMemory> chunks{target_.stage->memory()};
    memory_ = std::make_unique<cuda::SlotMemory>(pipeline_, chunk_, slots, layouts, chunks);
    board_ = std::make_unique<cuda::CompletionBoard>(slots * 4);
    const std::vector<cuda::Stage*> code{target_.stage.get()};
    cache_ = std::make_unique<graphs::GraphCache>(pipeline_, chunk_, code, *memory_, options);
    eager_ = std::make_unique<cuda::EagerCode>(pipeline_, chunk_, code, *memory_, 0);
  }

  void capture() {
    cache_->capture_all(*board_, [this](const Launch& launch) { return place_of(launch); });
  }

  [[nodiscard]] Launch launch_of(Pass pass, Microbatch microbatch, Slot slot, bool whole,
                                 std::uint64_t iteration = 0) const {
    Launch launch;
    launch.task = {microbatch, chunk_, pass};
    launch.iteration = iteration;
    launch.slot = slot;
    launch.whole = whole && pass == Pass::Backward;
    return launch;
  }
  [[nodiscard]] std::uint32_t place_of(const Launch& launch) const {
    const std::uint32_t kind = launch.whole ? 3 : static_cast<std::uint32_t>(launch.task.pass);
    return kind * memory_->slots() + launch.slot;
  }
  void run(cuda::TaskCode& code, const Launch& launch) {
    code.enqueue(launch, place_of(launch), *board_, stream_.get());
    board_->launched(place_of(launch));
    cuda::check(cudaStreamSynchronize(stream_.get()), "waiting");
  }

  /// Gives the slot the microbatch's inputs and output gradients.
  void arrive(Microbatch microbatch, Slot slot) {
    std::uint64_t salt = std::uint64_t{microbatch} * 16;
    for (auto* edges : {&buffers(slot).inputs, &buffers(slot).output_grads}) {
      for (auto& tensors : *edges) {
        for (cuda::SlotTensor& tensor : tensors) fill(tensor, ++salt);
      }
    }
  }
  /// What a tensor of the slot holds.
  [[nodiscard]] static std::vector<std::byte> read(const cuda::SlotTensor& tensor) {
    std::vector<std::byte> bytes(tensor.capacity);
    cuda::check(cudaMemcpy(bytes.data(), tensor.data, bytes.size(), cudaMemcpyDeviceToHost), "reading");
    return bytes;
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const TrainedTensor& tensor : stage().trained()) all.push_back(tensor.grad.cpu());
    return all;
  }
  void zero_gradients() {
    stage().zero_gradients(stream_.get());
    cuda::check(cudaStreamSynchronize(stream_.get()), "waiting");
  }

  [[nodiscard]] TorchStage& stage() const { return dynamic_cast<TorchStage&>(*target_.stage); }
  [[nodiscard]] cuda::SlotBuffers& buffers(Slot slot) { return memory_->at(0, slot); }
  [[nodiscard]] graphs::GraphCache& cache() noexcept { return *cache_; }
  [[nodiscard]] cuda::TaskCode& eager() noexcept { return *eager_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }

 private:
  static void fill(const cuda::SlotTensor& tensor, std::uint64_t salt) {
    at::manual_seed(salt);
    const std::int64_t count = static_cast<std::int64_t>(tensor.capacity / (tensor.shape.dtype_bits / 8));
    const bool real = tensor.shape.dtype_code == 2;
    const at::Tensor values = real ? at::randn({count}) : at::randint(2, {count}, at::kLong);
    cuda::check(cudaMemcpy(tensor.data, values.data_ptr(), std::min(tensor.capacity, values.nbytes()),
                           cudaMemcpyHostToDevice),
                "filling");
  }

  graphs::CaptureTarget target_;
  Pipeline pipeline_;
  Chunk chunk_;
  cuda::Stream stream_;
  std::unique_ptr<cuda::SlotMemory> memory_;
  std::unique_ptr<cuda::CompletionBoard> board_;
  std::unique_ptr<graphs::GraphCache> cache_;
  std::unique_ptr<cuda::EagerCode> eager_;
};

}  // namespace sluice::capture::test
