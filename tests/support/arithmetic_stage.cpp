#include "arithmetic_stage.hpp"

#include <dlpack/dlpack.h>

#include <utility>

#include "dlpack_tensor.hpp"

namespace sluice::test {
namespace {

double sum(std::span<const host::Payload> payloads) {
  double total = 0;
  for (const host::Payload& payload : payloads) total += elements_of(payload.at(0))[0];
  return total;
}

void fill(std::span<host::Payload> payloads, double value) {
  for (host::Payload& payload : payloads) payload.push_back(make_vector({value}));
}

/// The payloads at one chunk's edges.
struct Ends {
  std::vector<host::Payload> inputs;
  std::vector<host::Payload> outputs;
};

host::Payload move_over(std::vector<Ends>& chunks, const Pipeline& pipeline, EdgeId edge) {
  const Edge& ends = pipeline.edges()[edge];
  const auto out = pipeline.out_edges(ends.from);
  for (std::size_t place = 0; place < out.size(); ++place) {
    if (out[place] == edge) return std::move(chunks[ends.from].outputs[place]);
  }
  return {};
}

host::Payload move_back(std::vector<Ends>& chunks, const Pipeline& pipeline, EdgeId edge) {
  const Edge& ends = pipeline.edges()[edge];
  const auto in = pipeline.in_edges(ends.to);
  for (std::size_t place = 0; place < in.size(); ++place) {
    if (in[place] == edge) return std::move(chunks[ends.to].inputs[place]);
  }
  return {};
}

}  // namespace

ArithmeticStage::ArithmeticStage(const Pipeline& pipeline, Chunk chunk)
    : chunk_(chunk),
      source_(pipeline.in_edges(chunk).empty()),
      sink_(pipeline.out_edges(chunk).empty()),
      weight_(0.9 + 0.1 * chunk) {}

void ArithmeticStage::prepare(std::uint32_t slots) { saved_.assign(slots, {}); }

void ArithmeticStage::forward(const host::TaskContext& context, std::span<host::Payload> inputs,
                              std::span<host::Payload> outputs) {
  const double given =
      1.0 + 0.37 * context.microbatch + 0.11 * static_cast<double>(context.iteration) + chunk_;
  Saved& saved = saved_.at(context.slot);
  saved.input = source_ ? given : sum(inputs);
  saved.output = weight_ * saved.input;
  fill(outputs, saved.output);
  if (context.forward_only && sink_) evaluated_ += saved.output;
}

void ArithmeticStage::backward(const host::TaskContext& context, bool whole,
                               std::span<host::Payload> output_grads, std::span<host::Payload> input_grads) {
  Saved& saved = saved_.at(context.slot);
  saved.output_grad = sink_ ? saved.output : sum(output_grads);
  fill(input_grads, weight_ * saved.output_grad);
  if (whole) weight_grad(context);
}

void ArithmeticStage::weight_grad(const host::TaskContext& context) {
  const Saved& saved = saved_.at(context.slot);
  gradient_ += saved.output_grad * saved.input;
}

TensorShape ArithmeticStage::output_shape(std::size_t /*position*/) const {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 64;
  shape.rank = 1;
  shape.extent[0] = 1;
  return shape;
}

void ArithmeticStage::step() {
  weight_ -= 1e-4 * gradient_;
  gradient_ = 0;
}

ArithmeticStages make_stages(const Pipeline& pipeline) {
  ArithmeticStages stages;
  for (Chunk chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    stages.push_back(std::make_unique<ArithmeticStage>(pipeline, chunk));
  }
  return stages;
}

std::vector<host::Stage*> pointers(const ArithmeticStages& stages) {
  std::vector<host::Stage*> result;
  for (const auto& stage : stages) result.push_back(stage.get());
  return result;
}

std::vector<double> weights(const ArithmeticStages& stages) {
  std::vector<double> result;
  for (const auto& stage : stages) result.push_back(stage->weight());
  return result;
}

void run_sequentially(const Pipeline& pipeline, const Iteration& iteration, ArithmeticStages& stages) {
  for (const auto& stage : stages) {
    if (stage->slots() == 0) stage->prepare(1);
  }
  const bool training = iteration.kind == IterationKind::Training;
  for (Microbatch microbatch = 0; microbatch < pipeline.microbatches(); ++microbatch) {
    std::vector<Ends> chunks(pipeline.chunks());
    host::TaskContext context{0, iteration.index, microbatch, 0, !training};
    for (Chunk chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      Ends& ends = chunks[chunk];
      for (const EdgeId edge : pipeline.in_edges(chunk))
        ends.inputs.push_back(move_over(chunks, pipeline, edge));
      ends.outputs.resize(pipeline.out_edges(chunk).size());
      stages[chunk]->forward(context, ends.inputs, ends.outputs);
    }
    for (Chunk chunk = static_cast<Chunk>(pipeline.chunks()); training && chunk-- > 0;) {
      Ends& ends = chunks[chunk];
      ends.outputs.clear();
      for (const EdgeId edge : pipeline.out_edges(chunk))
        ends.outputs.push_back(move_back(chunks, pipeline, edge));
      for (host::Payload& payload : ends.inputs) payload.clear();
      stages[chunk]->backward(context, true, ends.outputs, ends.inputs);
    }
  }
}

}  // namespace sluice::test
