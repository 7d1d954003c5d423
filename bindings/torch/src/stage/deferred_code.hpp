#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "chunk_code.hpp"
#include "chunk_stage.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/transport.hpp"

namespace sluice::gpt {

/// A chunk of a GPT, or of one that describes images, whose layers leave their weight gradients to jobs: a
/// split backward computes no gradient twice.
class DeferredCode final : public capture::ChunkCode {
 public:
  struct Options {
    GptConfig config;
    /// Microbatches of one iteration over all replicas, by which losses are averaged.
    std::uint32_t microbatches = 1;
    bool is_first = false;
    bool is_last = false;
    /// What the output edge carries for images of so many patches; empty in the last chunk.
    std::function<std::vector<TensorShape>(std::uint32_t)> outputs;
    c10::Device device = c10::DeviceType::CPU;
    /// Training steps before iteration 0.
    std::uint64_t first_step = 0;
  };
  /// Makes the chunk's stage; it reads the step of its data from what it is given.
  using MakeStage = std::function<std::unique_ptr<ChunkStage>(const Progress&)>;

  /// Moves the chunk's parameters to the device.
  DeferredCode(const Options& options, const MakeStage& make);
  ~DeferredCode() override;

  [[nodiscard]] bool ends_in_loss() const override { return options_.is_last; }
  [[nodiscard]] std::size_t data_bytes() const override;
  [[nodiscard]] capture::MicrobatchData fill(const host::TaskContext& context,
                                             std::span<std::byte> data) override;
  [[nodiscard]] std::shared_ptr<capture::ChunkRun> forward(const std::vector<at::Tensor>& inputs,
                                                           std::byte* data, std::uint64_t variant) override;
  [[nodiscard]] std::vector<capture::TrainedTensor> trained() const override { return trained_; }

 private:
  [[nodiscard]] std::size_t patch_bytes() const;
  [[nodiscard]] std::size_t token_bytes() const;
  [[nodiscard]] Batch batch_at(std::byte* data, const ImageGrid& grid) const;

  Options options_;
  Progress progress_;
  std::unique_ptr<ChunkStage> stage_;
  std::vector<capture::TrainedTensor> trained_;
};

}  // namespace sluice::gpt
