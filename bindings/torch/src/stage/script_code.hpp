#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "chunk_code.hpp"
#include "sluice/torch/capture_check_input.hpp"
#include "sluice/transport.hpp"

namespace sluice::capture {

/// A TorchScript module as a chunk.
class ScriptCode final : public ChunkCode {
 public:
  /// Loads the module onto the device, and calls it once there to learn what it returns.
  /// @throws ConfigError naming `module` or `input`
  ScriptCode(const std::string& path, const std::vector<Input>& inputs, c10::Device device);
  ~ScriptCode() override;

  /// Of the tensors among the inputs.
  [[nodiscard]] const std::vector<TensorShape>& inputs() const noexcept { return inputs_; }
  /// Empty if it ends in a loss.
  [[nodiscard]] const std::vector<TensorShape>& outputs() const noexcept { return outputs_; }

  [[nodiscard]] bool ends_in_loss() const override { return outputs_.empty(); }
  [[nodiscard]] std::shared_ptr<ChunkRun> forward(const std::vector<at::Tensor>& inputs, std::byte* data,
                                                  std::uint64_t variant) override;
  [[nodiscard]] std::vector<TrainedTensor> trained() const override { return trained_; }
  [[nodiscard]] std::vector<at::Tensor> buffers() const override { return buffers_; }

 private:
  struct Module;

  void find_trained();
  void learn_results(const std::vector<Input>& inputs, c10::Device device);
  [[nodiscard]] std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs);

  std::string path_;
  std::unique_ptr<Module> module_;
  std::vector<TensorShape> inputs_;
  std::vector<TensorShape> outputs_;
  std::vector<TrainedTensor> trained_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace sluice::capture
