#include "cuda/cached_chunk.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/eager_code.hpp"

namespace sluice::test {
namespace {

constexpr std::uint32_t kStages = 3;

cuda::EdgeLayout layout(int elements) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = 1;
  shape.extent[0] = elements;
  return {shape};
}

BranchedStage::Options stage_options(const CachedChunk::Options& options) {
  return {options.elements,
          options.slots,
          options.end != ChainEnd::First,
          options.end != ChainEnd::Last,
          static_cast<Chunk>(options.end),
          options.fault,
          options.stream_memory};
}

std::vector<float> sequence(int elements, float first, float step) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

}  // namespace

CachedChunk::CachedChunk(const Options& options)
    : options_(options),
      pipeline_(Pipeline::chain(kStages, kMicrobatches, options.split)),
      stage_(stage_options(options)),
      board_(static_cast<std::uint32_t>(kPasses) * options.slots),
      stream_(cuda::make_stream()) {
  const std::vector<cuda::EdgeLayout> layouts(kStages - 1, layout(options.elements));
  const std::vector<cuda::ChunkMemory> chunks{stage_.memory()};
  const auto stage = static_cast<StageId>(options.end);
  memory_ = std::make_unique<cuda::SlotMemory>(
      cuda::SlotMemoryPlan{pipeline_, stage, layouts, chunks, options.cache.lanes}, options.slots);
  stage_.set_foreign_memory(memory_->temporary(Lane::Compute));
  const std::vector<cuda::Stage*> code{&stage_};
  eager_ = std::make_unique<cuda::EagerCode>(pipeline_, stage, code, *memory_, options.cache.rank);
  cache_ = std::make_unique<graphs::GraphCache>(pipeline_, stage, code, *memory_, options.cache);
}

void CachedChunk::capture(const std::function<void(std::uint32_t, std::uint32_t)>& progress) {
  cache_->capture_all(
      board_, [this](const Launch& launch) { return place_of(launch); }, progress);
}

Launch CachedChunk::launch_of(Pass pass, Microbatch microbatch, Slot slot, bool whole,
                              std::uint64_t iteration) const {
  return {{microbatch, chunk(), pass},
          iteration,
          slot,
          options_.cache.lanes[static_cast<std::size_t>(pass)],
          whole,
          false};
}

std::uint32_t CachedChunk::place_of(const Launch& launch) const {
  return static_cast<std::uint32_t>(launch.task.pass) * options_.slots + launch.slot;
}

void CachedChunk::enqueue(cuda::TaskCode& code, const Launch& launch, cudaStream_t stream) {
  code.enqueue(launch, place_of(launch), board_, stream);
  board_.launched(place_of(launch));
}

void CachedChunk::run(cuda::TaskCode& code, const Launch& launch) {
  enqueue(code, launch, stream());
  cuda::check(cudaStreamSynchronize(stream()), "waiting for a task");
}

void CachedChunk::write(cuda::SlotTensor& tensor, const std::vector<float>& values) const {
  tensor.shape.extent[0] = static_cast<std::int64_t>(values.size());
  cuda::check(cudaMemcpyAsync(tensor.data, values.data(), values.size() * sizeof(float),
                              cudaMemcpyHostToDevice, stream()),
              "writing a tensor");
  cuda::check(cudaStreamSynchronize(stream()), "writing a tensor");
}

void CachedChunk::arrive(Microbatch microbatch, Slot slot, int elements) {
  cuda::SlotBuffers& buffers = this->slot(slot);
  const auto number = static_cast<float>(microbatch);
  if (!buffers.inputs.empty()) write(buffers.inputs[0][0], sequence(elements, number - 3, 0.25F));
  if (buffers.outputs.empty()) return;
  if (buffers.inputs.empty()) buffers.outputs[0][0].shape.extent[0] = elements;
  write(buffers.output_grads[0][0], sequence(elements, 2 - number, 0.125F));
}

std::vector<float> CachedChunk::read(const cuda::SlotTensor& tensor) const {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.extent[0]));
  cuda::check(cudaMemcpyAsync(values.data(), tensor.data, values.size() * sizeof(float),
                              cudaMemcpyDeviceToHost, stream()),
              "reading a tensor");
  cuda::check(cudaStreamSynchronize(stream()), "reading a tensor");
  return values;
}

ChunkResults run_all(CachedChunk& chunk, cuda::TaskCode& code, bool split,
                     const std::function<int(Microbatch)>& elements) {
  ChunkResults results;
  const std::uint32_t slots = chunk.memory().slots();
  for (Microbatch first = 0; first < CachedChunk::kMicrobatches; first += slots) {
    const Microbatch end = std::min(first + slots, CachedChunk::kMicrobatches);
    // Microbatch m does not always have slot m mod slots.
    const auto slot_of = [&](Microbatch m) { return (m + m / slots) % slots; };
    for (Microbatch m = first; m < end; ++m) chunk.arrive(m, slot_of(m), elements(m));
    for (Microbatch m = first; m < end; ++m)
      chunk.enqueue(code, chunk.launch_of(Pass::Forward, m, slot_of(m), false, 1), chunk.stream());
    for (Microbatch m = first; m < end; ++m) {
      chunk.enqueue(code, chunk.launch_of(Pass::Backward, m, slot_of(m), !split, 1), chunk.stream());
      if (split)
        chunk.enqueue(code, chunk.launch_of(Pass::WeightGrad, m, slot_of(m), false, 1), chunk.stream());
    }
    for (Microbatch m = first; m < end; ++m) {
      const cuda::SlotBuffers& slot = chunk.slot(slot_of(m));
      if (!slot.outputs.empty()) results.outputs.push_back(chunk.read(slot.outputs[0][0]));
      if (!slot.input_grads.empty()) results.input_grads.push_back(chunk.read(slot.input_grads[0][0]));
    }
  }
  results.weight_gradient = chunk.stage().weight_gradient();
  return results;
}

}  // namespace sluice::test
