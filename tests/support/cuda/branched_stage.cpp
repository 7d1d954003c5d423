#include "cuda/branched_stage.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/elementwise_kernels.hpp"
#include "sluice/cuda/cuda_error.hpp"

namespace sluice::test {
namespace {

constexpr int kSteps = 5;
constexpr int kSegments = 18;

float* floats(std::byte* memory) { return reinterpret_cast<float*>(memory); }

std::size_t float_bytes(int n) { return static_cast<std::size_t>(n) * sizeof(float); }

void copy(float* to, const float* from, int n, cudaStream_t stream) {
  cuda::check(cudaMemcpyAsync(to, from, float_bytes(n), cudaMemcpyDeviceToDevice, stream),
              "copying a tensor");
}

}  // namespace

struct BranchedStage::Saved {
  graphs::RandomState* random;
  float* x;
  float* h;
  float* y;
  float* gy;
};

struct BranchedStage::Temporaries {
  std::array<float*, kBranches> parts;
  float* scratch;
};

BranchedStage::BranchedStage(const Options& options)
    : options_(options),
      branches_{cuda::make_stream(), cuda::make_stream()},
      forked_(cuda::make_event()),
      joined_{cuda::make_event(), cuda::make_event()},
      weights_(float_bytes(options.elements), "weights"),
      weight_gradient_(float_bytes(options.elements), "a weight gradient"),
      state_{cuda::DeviceSpan{weight_gradient_.data(), weight_gradient_.size(), kDLFloat, 32}},
      random_(options.slots, 7, options.chunk) {
  std::vector<float> weights(static_cast<std::size_t>(options.elements));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.5F + 0.125F * static_cast<float>((i + options.chunk) % 7);
  cuda::check(cudaMemcpy(weights_.data(), weights.data(), weights_.size(), cudaMemcpyHostToDevice),
              "writing weights");
  const std::vector<float> zeros(weights.size());
  cuda::check(
      cudaMemcpy(weight_gradient_.data(), zeros.data(), weight_gradient_.size(), cudaMemcpyHostToDevice),
      "clearing a weight gradient");
}

cuda::ChunkMemory BranchedStage::memory() const {
  return {sizeof(graphs::RandomState) + 4 * float_bytes(options_.elements),
          (kBranches + 1) * float_bytes(options_.elements)};
}

int BranchedStage::elements(const cuda::SlotBuffers& slot) const {
  const auto& edges = options_.input ? slot.inputs : slot.outputs;
  return edges.empty() ? options_.elements : static_cast<int>(edges[0][0].shape.extent[0]);
}

BranchedStage::Saved BranchedStage::saved(const cuda::SlotBuffers& slot) const {
  float* const first = floats(slot.saved + sizeof(graphs::RandomState));
  return {reinterpret_cast<graphs::RandomState*>(slot.saved), first, first + options_.elements,
          first + 2 * options_.elements, first + 3 * options_.elements};
}

BranchedStage::Temporaries BranchedStage::temporaries(const cuda::TaskBuffers& buffers) const {
  float* const first = floats(buffers.temporary);
  return {{first, first + options_.elements, first + 2 * options_.elements}, first + 3 * options_.elements};
}

std::array<cudaStream_t, BranchedStage::kBranches> BranchedStage::fork(cudaStream_t stream) const {
  cuda::check(cudaEventRecord(forked_.get(), stream), "forking");
  for (const cuda::Stream& branch : branches_)
    cuda::check(cudaStreamWaitEvent(branch.get(), forked_.get(), 0), "forking");
  return {stream, branches_[0].get(), branches_[1].get()};
}

void BranchedStage::join(cudaStream_t stream, bool all) const {
  for (std::size_t i = 0; i < (all ? branches_.size() : 1); ++i) {
    cuda::check(cudaEventRecord(joined_[i].get(), branches_[i].get()), "joining");
    cuda::check(cudaStreamWaitEvent(stream, joined_[i].get(), 0), "joining");
  }
}

void BranchedStage::enqueue_branches(const std::array<cudaStream_t, kBranches>& branches, const float* x,
                                     const Temporaries& temporaries, int n) const {
  for (std::size_t k = 0; k < kBranches; ++k) {
    float* const part = temporaries.parts[k];
    for (int step = 0; step < kSteps; ++step) {
      const float factor = 0.125F * static_cast<float>(step + static_cast<int>(k));
      enqueue_scale_add(part, step == 0 ? x : part, factor, x, n, branches[k]);
    }
  }
}

void BranchedStage::prepare_task(const host::TaskContext& context, Pass pass,
                                 const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  random_.prepare(context, pass, saved(buffers.slot).random, stream);
  microbatch_ = static_cast<float>(context.microbatch);
  if (pass != Pass::Forward || options_.input) return;
  const float factor = static_cast<float>(context.microbatch) + 0.25F * static_cast<float>(context.iteration);
  const float* const weights = floats(weights_.data());
  enqueue_scale_add(saved(buffers.slot).x, weights, factor, weights, elements(buffers.slot), stream);
}

void BranchedStage::misbehave(StageFault fault, cudaStream_t stream) const {
  if (fault == StageFault::Throws) throw std::runtime_error("no such layer");
  if (fault == StageFault::Synchronises) cuda::check(cudaStreamSynchronize(stream), "waiting for a layer");
  if (fault == StageFault::SynchronisesUnheard) static_cast<void>(cudaStreamSynchronize(stream));
  if (fault == StageFault::Queries) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) cuda::check(code, "asking for a layer's end");
  }
  if (fault == StageFault::Allocates) {
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, 256), "allocating for a layer");
    cuda::check(cudaFree(memory), "freeing a layer's memory");
  }
}

void BranchedStage::forward(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  const int n = elements(buffers.slot);
  const Saved saved = this->saved(buffers.slot);
  const Temporaries temporaries = this->temporaries(buffers);
  const float* const input = options_.input ? floats(buffers.slot.inputs[0][0].data) : nullptr;
  if (input != nullptr) copy(saved.x, input, n, stream);
  if (options_.fault != StageFault::Allocates) misbehave(options_.fault, stream);
  enqueue_branches(fork(stream), saved.x, temporaries, n);
  join(stream, options_.fault != StageFault::LeavesBranch);
  const float factor = options_.fault == StageFault::BakesHostValue ? 1 + microbatch_ : 1;
  enqueue_scale_add(saved.h, temporaries.parts[0], factor, temporaries.parts[1], n, stream);
  enqueue_scale_add(saved.h, temporaries.parts[2], 1, saved.h, n, stream);
  if (options_.fault == StageFault::ReadsOldTemporary)
    enqueue_scale_add(saved.h, temporaries.scratch, 1, saved.h, n, stream);
  enqueue_multiply(saved.y, saved.h, floats(weights_.data()), n, stream);
  enqueue_drop(saved.y, saved.y, &saved.random->seed, n, stream);
  if (!options_.output) return;
  cuda::SlotTensor& output = buffers.slot.outputs[0][0];
  copy(floats(output.data), saved.y, n, stream);
  output.shape.extent[0] = n;
}

void BranchedStage::backward(const cuda::TaskBuffers& buffers, bool whole, cudaStream_t stream) {
  const int n = elements(buffers.slot);
  const Saved saved = this->saved(buffers.slot);
  Temporaries temporaries = this->temporaries(buffers);
  void* allocated = nullptr;
  if (options_.stream_memory) {
    cuda::check(cudaMallocAsync(&allocated, float_bytes(options_.elements), stream),
                "allocating on a stream");
    temporaries.scratch = static_cast<float*>(allocated);
  }
  if (options_.fault == StageFault::Allocates) misbehave(options_.fault, stream);
  copy(saved.gy, options_.output ? floats(buffers.slot.output_grads[0][0].data) : saved.y, n, stream);
  enqueue_multiply(temporaries.scratch, saved.gy, floats(weights_.data()), n, stream);
  const auto branches = fork(stream);
  enqueue_branches(branches, temporaries.scratch, temporaries, n);
  if (whole)
    enqueue_accumulate(floats(weight_gradient_.data()), saved.gy, saved.h, n, branches[kBranches - 1]);
  join(stream, true);
  cuda::SlotTensor* const gradient = options_.input ? &buffers.slot.input_grads[0][0] : nullptr;
  float* const result = gradient == nullptr ? temporaries.scratch : floats(gradient->data);
  enqueue_scale_add(result, temporaries.parts[0], 1, temporaries.parts[1], n, stream);
  enqueue_scale_add(result, temporaries.parts[2], 1, result, n, stream);
  if (allocated != nullptr) cuda::check(cudaFreeAsync(allocated, stream), "freeing on a stream");
  if (gradient != nullptr) gradient->shape = buffers.slot.inputs[0][0].shape;
}

void BranchedStage::weight_grad(const cuda::TaskBuffers& buffers, cudaStream_t stream) {
  const int n = elements(buffers.slot);
  const Saved saved = this->saved(buffers.slot);
  float* const scratch =
      options_.fault == StageFault::ForeignTemporary ? floats(foreign_) : temporaries(buffers).scratch;
  cuda::check(cudaMemsetAsync(scratch, 0, float_bytes(n), stream), "clearing a layer's memory");
  const float factor = options_.fault == StageFault::CountsCalls ? ++calls_ : 1;
  enqueue_scale_add(scratch, saved.gy, factor, scratch, n, stream);
  const auto branches = fork(stream);
  const int length = (n + kSegments - 1) / kSegments;
  for (int segment = 0; segment < kSegments; ++segment) {
    const int first = std::min(n, segment * length);
    const int count = std::min(n - first, length);
    if (count == 0) continue;
    enqueue_accumulate(floats(weight_gradient_.data()) + first, scratch + first, saved.h + first, count,
                       branches[static_cast<std::size_t>(segment % kBranches)]);
  }
  join(stream, true);
}

std::vector<float> BranchedStage::weight_gradient() const {
  std::vector<float> values(static_cast<std::size_t>(options_.elements));
  cuda::check(cudaDeviceSynchronize(), "waiting for the device");
  cuda::check(
      cudaMemcpy(values.data(), weight_gradient_.data(), weight_gradient_.size(), cudaMemcpyDeviceToHost),
      "reading a weight gradient");
  return values;
}

}  // namespace sluice::test
