#include "deferred_code.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <dlpack/dlpack.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <utility>

#include "sluice/torch/vit_config.hpp"

namespace sluice::gpt {
namespace {

/// What the shapes of a microbatch do not say.
struct Variant {
  ImageGrid grid;
  bool drops = false;

  [[nodiscard]] std::uint64_t packed() const {
    return grid.rows | std::uint64_t{grid.columns} << 16U | std::uint64_t{drops} << 32U;
  }
  [[nodiscard]] static Variant unpacked(std::uint64_t variant) {
    constexpr std::uint64_t side = 0xFFFF;
    return {{static_cast<std::uint32_t>(variant & side), static_cast<std::uint32_t>(variant >> 16U & side)},
            (variant >> 32U) != 0};
  }
};

class DeferredRun final : public capture::ChunkRun {
 public:
  DeferredRun(const ChunkStage& stage, double share, std::size_t inputs)
      : stage_(stage), share_(share), inputs_(inputs) {}

  void forward(Batch batch, const at::Tensor& input, const Dropout& dropout) {
    batch_ = std::move(batch);
    leaves_ = stage_.leaves(batch_, input);
    for (at::Tensor& leaf : leaves_) leaf = leaf.detach().set_requires_grad(true);
    results_ = {stage_.run(leaves_, batch_, dropout, jobs_)};
  }

  [[nodiscard]] const std::vector<at::Tensor>& results() const override { return results_; }

  [[nodiscard]] capture::Differentiated backward(const std::vector<at::Tensor>& result_grads,
                                                 bool whole) override {
    const at::Tensor& result = results_.front();
    const at::Tensor gradient =
        result_grads.front().defined() ? result_grads.front() : at::full({}, share_, result.options());
    jobs_ = {};
    std::vector<at::Tensor> leaf_grads =
        ::torch::autograd::grad({result}, leaves_, {gradient}, /*retain_graph=*/true);
    for (at::Tensor& each : leaf_grads) each = each.detach();
    stage_.defer_embeddings(batch_, leaf_grads, jobs_);
    capture::Differentiated made;
    if (inputs_ > 0) made.input_grads = {leaf_grads.front()};
    // A copy is run, for the jobs that ran are freed.
    made.weight_grad = [jobs = std::exchange(jobs_, {})] { WeightJobs(jobs).run(); };
    if (whole) std::exchange(made.weight_grad, nullptr)();
    return made;
  }

 private:
  const ChunkStage& stage_;
  double share_;
  std::size_t inputs_;
  Batch batch_;
  std::vector<at::Tensor> leaves_;
  std::vector<at::Tensor> results_;
  /// The graph's nodes leave theirs here.
  WeightJobs jobs_;
};

/// Appends the tensor's bytes.
std::span<std::byte> put(std::span<std::byte> to, const at::Tensor& tensor) {
  std::memcpy(to.data(), tensor.const_data_ptr(), tensor.nbytes());
  return to.subspan(tensor.nbytes());
}

}  // namespace

DeferredCode::DeferredCode(const Options& options, const MakeStage& make)
    : options_(options), stage_(make(progress_)) {
  for (ModelParameter* const parameter : stage_->parameters()) {
    parameter->value = parameter->value.to(options_.device);
    parameter->grad = at::zeros_like(parameter->value);
    trained_.push_back({parameter->name, parameter->value, parameter->grad});
  }
}

DeferredCode::~DeferredCode() = default;

std::size_t DeferredCode::patch_bytes() const {
  if (!options_.is_first || !options_.config.encoder) return 0;
  const std::size_t side = options_.config.encoder->largest_grid;
  return options_.config.micro_batch_size * side * side * VitConfig::kPatchValues * sizeof(float);
}

std::size_t DeferredCode::token_bytes() const {
  return std::size_t{options_.config.micro_batch_size} * options_.config.context * sizeof(std::int64_t);
}

std::size_t DeferredCode::data_bytes() const { return patch_bytes() + 2 * token_bytes(); }

capture::MicrobatchData DeferredCode::fill(const host::TaskContext& context, std::span<std::byte> data) {
  progress_.iteration = {context.iteration,
                         context.forward_only ? IterationKind::ForwardOnly : IterationKind::Training};
  progress_.step = options_.first_step + context.iteration;
  const Batch batch = stage_->batch(context);
  if (batch.patches.defined()) put(data, batch.patches);
  std::span<std::byte> rest = data.subspan(patch_bytes());
  if (batch.tokens.defined()) put(rest, batch.tokens);
  rest = rest.subspan(token_bytes());
  if (batch.targets.defined()) put(rest, batch.targets);
  // Only the chunk that embeds the patches knows rows from columns.
  const ImageGrid grid = options_.is_first ? batch.grid : ImageGrid{batch.grid.patches(), 1};
  capture::MicrobatchData made;
  made.bytes = data_bytes();
  made.variant = Variant{grid, options_.config.dropout > 0 && !context.forward_only}.packed();
  if (batch.patches.defined() && !options_.is_last) made.outputs = options_.outputs(grid.patches());
  return made;
}

Batch DeferredCode::batch_at(std::byte* data, const ImageGrid& grid) const {
  const auto view = [&](std::byte* at, at::IntArrayRef sizes, c10::ScalarType type) {
    return at::for_blob(at, sizes)
        .options(at::TensorOptions().dtype(type).device(options_.device))
        .target_device(options_.device)
        .make_tensor();
  };
  const std::int64_t rows = options_.config.micro_batch_size;
  Batch batch;
  batch.grid = grid;
  if (patch_bytes() > 0)
    batch.patches = view(data, {rows, grid.patches(), VitConfig::kPatchValues}, at::kFloat);
  batch.tokens = view(data + patch_bytes(), {rows, options_.config.context}, at::kLong);
  batch.targets = view(data + patch_bytes() + token_bytes(), {rows, options_.config.context}, at::kLong);
  return batch;
}

std::shared_ptr<capture::ChunkRun> DeferredCode::forward(const std::vector<at::Tensor>& inputs,
                                                         std::byte* data, std::uint64_t variant) {
  const Variant of = Variant::unpacked(variant);
  auto run = std::make_shared<DeferredRun>(*stage_, 1.0 / options_.microbatches, inputs.size());
  run->forward(batch_at(data, of.grid), inputs.empty() ? at::Tensor() : inputs.front(),
               of.drops ? Dropout::of_default_generator(options_.config.dropout) : Dropout());
  return run;
}

}  // namespace sluice::gpt
