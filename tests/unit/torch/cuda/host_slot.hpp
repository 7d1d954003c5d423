#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slot_tensors.hpp"
#include "sluice/cuda/stage.hpp"
#include "torch_device.hpp"

namespace sluice::capture::test {

/// What happened on a host device.
struct HostDeviceLog {
  /// Streams that count as capturing.
  std::set<cudaStream_t> capturing;
  /// Stream, and which it waited for.
  std::vector<std::pair<cudaStream_t, cudaStream_t>> follows;
  std::vector<cudaStream_t> begun;
  int at_work = 0;
};

/// The host as a device: all is done at once, whatever the stream.
class HostDevice final : public TorchDevice {
 public:
  explicit HostDevice(HostDeviceLog& log) : log_(log) {}

  [[nodiscard]] c10::Device device() const override { return {c10::DeviceType::CPU}; }
  [[nodiscard]] bool captures(cudaStream_t stream) const override { return log_.capturing.contains(stream); }
  [[nodiscard]] std::unique_ptr<Work> begin(cudaStream_t stream, const void*, const Draws& draws) override {
    log_.begun.push_back(stream);
    at::manual_seed(draws.state.seed + draws.used);
    return std::make_unique<HostWork>(log_, draws.used);
  }
  void follow(cudaStream_t stream, cudaStream_t other) override { log_.follows.emplace_back(stream, other); }
  graphs::RandomState write(const host::TaskContext& context, graphs::RandomState* words,
                            cudaStream_t) override {
    return *words = graphs::random_state(1, context.iteration, 0, context.microbatch);
  }
  void reserve(std::size_t data_bytes) override { data_bytes_ = data_bytes; }
  [[nodiscard]] std::span<std::byte> staging(Slot slot) override {
    std::vector<std::byte>& data = staging_[slot];
    data.resize(data_bytes_);
    return data;
  }
  void copy(std::byte* to, std::span<const std::byte> from, cudaStream_t) override {
    std::memcpy(to, from.data(), from.size());
  }
  void read(std::span<std::byte> to, const std::byte* from, cudaStream_t) const override {
    std::memcpy(to.data(), from, to.size());
  }
  [[nodiscard]] std::uint64_t pool_bytes() const override { return 0; }

 private:
  class HostWork final : public Work {
   public:
    HostWork(HostDeviceLog& log, std::uint64_t used) : log_(log), used_(used) { ++log_.at_work; }
    ~HostWork() override { --log_.at_work; }
    [[nodiscard]] std::uint64_t used() const override { return used_ + 4; }

   private:
    HostDeviceLog& log_;
    std::uint64_t used_;
  };

  HostDeviceLog& log_;
  std::size_t data_bytes_ = 0;
  std::map<Slot, std::vector<std::byte>> staging_;
};

/// One slot of one chunk in host memory, with one edge in and one out.
class HostSlot {
 public:
  HostSlot(const std::vector<TensorShape>& inputs, const std::vector<TensorShape>& outputs,
           std::size_t saved_bytes) {
    if (!inputs.empty()) {
      add(slot_.inputs, inputs);
      add(slot_.input_grads, inputs);
    }
    if (!outputs.empty()) {
      add(slot_.outputs, outputs);
      add(slot_.output_grads, outputs);
    }
    slot_.saved = memory(saved_bytes);
    slot_.saved_bytes = saved_bytes;
  }

  [[nodiscard]] cuda::SlotBuffers& buffers() noexcept { return slot_; }
  [[nodiscard]] cuda::TaskBuffers task() { return {slot_, nullptr, 0}; }
  [[nodiscard]] at::Tensor input(std::size_t i = 0) { return view_of(slot_.inputs[0][i], at::kCPU); }
  [[nodiscard]] at::Tensor output(std::size_t i = 0) { return view_of(slot_.outputs[0][i], at::kCPU); }
  [[nodiscard]] at::Tensor output_grad(std::size_t i = 0) {
    return view_of(slot_.output_grads[0][i], at::kCPU);
  }
  [[nodiscard]] at::Tensor input_grad(std::size_t i = 0) {
    return view_of(slot_.input_grads[0][i], at::kCPU);
  }

 private:
  std::byte* memory(std::size_t bytes) {
    // Not zeros, which would hide what is not written.
    return memory_.emplace_back(std::make_unique<std::vector<std::byte>>(bytes, std::byte{0x7B}))->data();
  }
  void add(std::vector<std::vector<cuda::SlotTensor>>& edges, const std::vector<TensorShape>& shapes) {
    std::vector<cuda::SlotTensor>& tensors = edges.emplace_back();
    for (const TensorShape& shape : shapes) {
      std::size_t bytes = shape.dtype_bits / 8;
      for (std::uint8_t i = 0; i < shape.rank; ++i) bytes *= static_cast<std::size_t>(shape.extent[i]);
      tensors.push_back({memory(bytes), bytes, shape});
    }
  }

  cuda::SlotBuffers slot_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
};

}  // namespace sluice::capture::test
