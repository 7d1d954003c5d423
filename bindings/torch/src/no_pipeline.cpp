#include "sluice/torch/no_pipeline.hpp"

#include <utility>

namespace sluice::gpt {
namespace {

GptConfig in_one_chunk(GptConfig config) {
  if (config.encoder) config.encoder->chunks = 0;
  return config;
}

}  // namespace

NoPipeline::NoPipeline(const GptConfig& config, std::shared_ptr<const TextData> text, Microbatch microbatches)
    : pipeline_(Pipeline::chain(1, microbatches)),
      rank_(in_one_chunk(config), std::move(text), std::make_shared<InProcessExchange>(1), pipeline_, 0) {
  rank_.stage(0).prepare(1);
}

double NoPipeline::run(IterationKind kind) {
  const Iteration iteration{iterations_++, kind};
  const bool forward_only = kind == IterationKind::ForwardOnly;
  host::Stage& stage = rank_.stage(0);
  rank_.begin_iteration(iteration);
  for (Microbatch microbatch = 0; microbatch < pipeline_.microbatches(); ++microbatch) {
    const host::TaskContext context{0, iteration.index, microbatch, 0, forward_only};
    stage.forward(context, {}, {});
    if (!forward_only) stage.backward(context, /*whole=*/true, {}, {});
  }
  rank_.end_iteration();
  return rank_.loss();
}

std::string NoPipeline::parameters_sha256() const {
  return gpt::parameters_sha256(rank_.parameter_digests());
}

}  // namespace sluice::gpt
