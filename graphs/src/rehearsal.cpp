#include "rehearsal.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "sample_values.hpp"
#include "shapes.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/eager_code.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

/// Not a number, in every floating-point type.
constexpr int kNoValue = 0xFF;
constexpr int kTemporaryOfCall = 0x3C;
constexpr int kTemporaryOfReplay = 0x45;
constexpr int kTemporaryOfOthers = 0x5A;
/// How much further than from each other a replay may be from runs call by call that differ.
constexpr double kMoreThanNoise = 4;
/// Rounding in another order differs by less, also in sixteen bits.
constexpr double kMostNoise = 0.05;

void fill(std::byte* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) cuda::check(cudaMemsetAsync(memory, value, bytes, stream), "filling a slot");
}

void forget(const std::vector<std::vector<cuda::SlotTensor>>& edges, cudaStream_t stream) {
  for (const auto& tensors : edges) {
    for (const cuda::SlotTensor& tensor : tensors) fill(tensor.data, kNoValue, tensor.capacity, stream);
  }
}

bool passes(const Difference& replay, const Difference& noise, double tolerance) {
  const bool near = replay.max_rel <= std::max(tolerance, kMoreThanNoise * noise.max_rel);
  return near && (replay.bytes == 0 || noise.bytes > 0 || tolerance > 0);
}

std::string text_of(const Difference& difference) {
  return fmt::format("by up to {:g} ({:g} of the largest value) and in {} bytes without a type, first in {}",
                     difference.max_abs, difference.max_rel, difference.bytes, difference.where);
}

std::string wrong(const Difference& replay) {
  return "a replay differs from the run call by call " + text_of(replay) +
         "; what a pass enqueues may depend on the buffers' addresses and shapes only, not on the "
         "microbatch, on "
         "values of the host or on what the temporary memory held, and must be ordered by streams and "
         "events: "
         "what depends on the microbatch is written by prepare_task";
}

std::string not_repeatable(const Difference& noise) {
  return "two runs call by call of the same task differ " + text_of(noise) +
         ", so that no replay can be verified; what a pass computes may depend on its slot and the stage's "
         "state only";
}

}  // namespace

Rehearsal::Rehearsal(const RehearsedTask& task, bool fill)
    : task_(task),
      context_{task.rank, 0, task.key.slot % task.microbatches, task.key.slot, false},
      changed_(task.buffers.slot, task.code.state()) {
  if (fill) fill_inputs();
  forget_outputs();
  changed_.save(task_.stream);
}

Rehearsal::~Rehearsal() {
  const bool last = task_.key.whole || task_.key.pass == Pass::WeightGrad;
  // Code that failed may have left work on streams that it had forked.
  if (std::uncaught_exceptions() > exceptions_) static_cast<void>(cudaDeviceSynchronize());
  try {
    last ? changed_.restore(task_.stream) : changed_.restore_state(task_.stream);
    static_cast<void>(cudaStreamSynchronize(task_.stream));
  } catch (const cuda::CudaError&) {
    // The device failed, which whatever ended the rehearsal early has told.
    static_cast<void>(cudaGetLastError());
  }
}

void Rehearsal::fill_inputs() const {
  const bool forward = task_.key.pass == Pass::Forward;
  if (task_.key.pass == Pass::WeightGrad) return;
  const cuda::SlotBuffers& slot = task_.buffers.slot;
  std::uint64_t salt = task_.key.slot;
  for (const auto& tensors : forward ? slot.inputs : slot.output_grads) {
    for (const cuda::SlotTensor& tensor : tensors) {
      const std::vector<std::byte> values =
          sample_values(tensor.shape.dtype_code, tensor.shape.dtype_bits, tensor.capacity, ++salt);
      cuda::check(
          cudaMemcpyAsync(tensor.data, values.data(), values.size(), cudaMemcpyHostToDevice, task_.stream),
          "filling a slot");
      cuda::check(cudaStreamSynchronize(task_.stream), "filling a slot");
    }
  }
}

void Rehearsal::forget_outputs() const {
  const cuda::SlotBuffers& slot = task_.buffers.slot;
  if (task_.key.pass == Pass::WeightGrad) return;
  forget(slot.input_grads, task_.stream);
  if (task_.key.pass == Pass::Backward) return;
  forget(slot.outputs, task_.stream);
  fill(slot.saved, kNoValue, slot.saved_bytes, task_.stream);
}

void Rehearsal::run_pass() const {
  cuda::enqueue_pass(task_.code, task_.key.pass, task_.key.whole, task_.buffers, task_.stream);
}

void Rehearsal::run(const host::TaskContext& context, int temporary_byte,
                    const std::function<void()>& work) const {
  changed_.restore(task_.stream);
  fill_temporaries(temporary_byte);
  task_.code.prepare_task(context, task_.key.pass, task_.buffers, task_.stream);
  work();
  cuda::check(cudaStreamSynchronize(task_.stream), "waiting for the task");
}

void Rehearsal::warm_up() const {
  run(context_, kTemporaryOfCall, [this] { run_pass(); });
}

void Rehearsal::prepare() const {
  changed_.restore(task_.stream);
  task_.code.prepare_task(context_, task_.key.pass, task_.buffers, task_.stream);
  cuda::check(cudaStreamSynchronize(task_.stream), "waiting for prepare_task");
}

host::TaskContext Rehearsal::other_context() const {
  const std::vector<TensorShape> shapes = selecting_shapes(task_.key.pass, task_.buffers.slot);
  host::TaskContext other = context_;
  other.iteration = 1;
  for (const Microbatch microbatch : {(context_.microbatch + 1) % task_.microbatches, context_.microbatch}) {
    other.microbatch = microbatch;
    task_.code.prepare_task(other, task_.key.pass, task_.buffers, task_.stream);
    cuda::check(cudaStreamSynchronize(task_.stream), "waiting for prepare_task");
    const bool replayed =
        task_.code.replay(task_.key.pass, task_.key.whole, task_.buffers) == cuda::Replay::Held;
    if (replayed && selected(shapes, task_.key.pass, task_.buffers.slot)) return other;
  }
  return context_;
}

Verification Rehearsal::verify(const std::function<void()>& replay, double tolerance) const {
  const host::TaskContext context = other_context();
  const auto call_by_call = [&] {
    run(context, kTemporaryOfCall, [this] { run_pass(); });
    expect_temporaries_untouched();
    return changed_.contents(task_.stream);
  };
  const TaskMemory::Contents expected = call_by_call();
  const Difference noise = changed_.difference(expected, call_by_call());
  if (noise.max_rel > std::max(tolerance, kMostNoise)) throw Error(not_repeatable(noise));
  run(context, kTemporaryOfReplay, replay);
  expect_temporaries_untouched();
  const Difference difference = changed_.difference(expected, changed_.contents(task_.stream));
  if (!passes(difference, noise, tolerance)) throw Error(wrong(difference));
  return {difference.max_abs, difference.max_rel, difference.bytes, noise.none()};
}

void Rehearsal::fill_temporaries(int own_byte) const {
  const std::size_t bytes = task_.memory.bytes().temporary;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::byte* const memory = task_.memory.temporary(static_cast<Lane>(lane));
    const int value = static_cast<Lane>(lane) == task_.lane ? own_byte : kTemporaryOfOthers;
    if (memory != nullptr) fill(memory, value, bytes, task_.stream);
  }
}

void Rehearsal::expect_temporaries_untouched() const {
  constexpr const char* lane_names[] = {"compute", "weight gradient", "reduction"};
  std::vector<std::byte> contents(task_.memory.bytes().temporary);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::byte* const memory = task_.memory.temporary(static_cast<Lane>(lane));
    if (memory == nullptr || contents.empty() || static_cast<Lane>(lane) == task_.lane) continue;
    cuda::check(
        cudaMemcpyAsync(contents.data(), memory, contents.size(), cudaMemcpyDeviceToHost, task_.stream),
        "reading temporary memory");
    cuda::check(cudaStreamSynchronize(task_.stream), "reading temporary memory");
    const auto touched = std::find_if(contents.begin(), contents.end(),
                                      [](std::byte byte) { return byte != std::byte{kTemporaryOfOthers}; });
    if (touched != contents.end()) {
      throw Error(
          fmt::format("it writes to the temporary memory of the {} lane, which may be in use then (byte {}): "
                      "a pass uses what it is given",
                      lane_names[lane], touched - contents.begin()));
    }
  }
}

}  // namespace sluice::graphs
