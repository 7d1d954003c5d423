#include "cuda/device_arithmetic_stage.hpp"

#include <dlpack/dlpack.h>

#include "cuda/scalar_kernels.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::test {
namespace {

using Tensors = std::vector<std::vector<cuda::SlotTensor>>;

double* scalar(const std::vector<cuda::SlotTensor>& tensors) {
  return reinterpret_cast<double*>(tensors.at(0).data);
}

void copy(double* to, const double* from, cudaMemcpyKind kind, cudaStream_t stream) {
  cuda::check(cudaMemcpyAsync(to, from, sizeof(double), kind, stream), "copying a number");
}

void enqueue_sum_of(const Tensors& terms, double* sum, cudaStream_t stream) {
  enqueue_set(sum, 0, stream);
  for (const auto& term : terms) enqueue_sum(sum, scalar(term), stream);
}

}  // namespace

DeviceArithmeticStage::DeviceArithmeticStage(const Pipeline& pipeline, Chunk chunk, Work work)
    : chunk_(chunk),
      source_(pipeline.in_edges(chunk).empty()),
      sink_(pipeline.out_edges(chunk).empty()),
      host_weight_(0.9 + 0.1 * chunk),
      state_{cuda::DeviceSpan{reinterpret_cast<std::byte*>(gradient()), sizeof(double), kDLFloat, 64}},
      branches_(work == Work::Branched ? std::make_unique<ScalarBranches>() : nullptr) {
  enqueue_set(weight_on_device(), host_weight_, stream_.get());
  enqueue_set(gradient(), 0, stream_.get());
  cuda::check(cudaStreamSynchronize(stream_.get()), "setting the parameters");
}

cuda::ChunkMemory DeviceArithmeticStage::memory() const {
  return {sizeof(Saved), sizeof(double) + ScalarBranches::kBytes};
}

ScalarBranches::Numbers DeviceArithmeticStage::on_their_way(const ScalarBranches::Numbers& numbers,
                                                            const cuda::TaskBuffers& buffers,
                                                            cudaStream_t stream) const {
  if (branches_ == nullptr) return numbers;
  return branches_->enqueue(numbers, reinterpret_cast<double*>(buffers.temporary) + 1, stream);
}

void DeviceArithmeticStage::prepare_task(const host::TaskContext& context, Pass pass,
                                         const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  if (!source_ || pass != Pass::Forward) return;
  const double given =
      1.0 + 0.37 * context.microbatch + 0.11 * static_cast<double>(context.iteration) + chunk_;
  enqueue_set(&saved(buffers)->input, given, stream);
}

void DeviceArithmeticStage::forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  Saved* const kept = saved(buffers);
  if (!source_) enqueue_sum_of(buffers.slot.inputs, &kept->input, stream);
  const auto [input, weight, unused] =
      on_their_way({&kept->input, weight_on_device(), weight_on_device()}, buffers, stream);
  enqueue_product(&kept->output, weight, input, stream);
  for (const auto& output : buffers.slot.outputs)
    copy(scalar(output), &kept->output, cudaMemcpyDeviceToDevice, stream);
}

void DeviceArithmeticStage::backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) {
  Saved* const kept = saved(buffers);
  if (sink_) {
    copy(&kept->output_grad, &kept->output, cudaMemcpyDeviceToDevice, stream);
  } else {
    enqueue_sum_of(buffers.slot.output_grads, &kept->output_grad, stream);
  }
  const auto [output_grad, weight, unused] =
      on_their_way({&kept->output_grad, weight_on_device(), weight_on_device()}, buffers, stream);
  for (const auto& input_grad : buffers.slot.input_grads)
    enqueue_product(scalar(input_grad), weight, output_grad, stream);
  if (whole) weight_grad(buffers, stream);
}

void DeviceArithmeticStage::weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  auto* const product = reinterpret_cast<double*>(buffers.temporary);
  const Saved* const kept = saved(buffers);
  const auto [output_grad, input, unused] =
      on_their_way({&kept->output_grad, &kept->input, &kept->input}, buffers, stream);
  enqueue_product(product, output_grad, input, stream);
  enqueue_sum(gradient(), product, stream);
}

void DeviceArithmeticStage::step() {
  double gradient = 0;
  copy(&gradient, this->gradient(), cudaMemcpyDeviceToHost, stream_.get());
  cuda::check(cudaStreamSynchronize(stream_.get()), "reading a gradient");
  host_weight_ -= 1e-4 * gradient;
  enqueue_set(weight_on_device(), host_weight_, stream_.get());
  enqueue_set(this->gradient(), 0, stream_.get());
  cuda::check(cudaStreamSynchronize(stream_.get()), "setting the parameters");
}

std::vector<cuda::EdgeLayout> arithmetic_layouts(const Pipeline& pipeline) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 64;
  shape.rank = 1;
  shape.extent[0] = 1;
  return std::vector<cuda::EdgeLayout>(pipeline.edges().size(), {shape});
}

}  // namespace sluice::test
