#include "sluice/torch/training_rank.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "gpt_stage.hpp"
#include "optimizer.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as torch's clip_grad_norm_

struct IndexedNorm {
  std::uint32_t index = 0;
  double squared = 0.0;
};

void require_chain(const Pipeline& pipeline) {
  bool is_chain = pipeline.edges().size() + 1 == pipeline.chunks();
  for (const Edge& edge : pipeline.edges()) is_chain = is_chain && edge.to == edge.from + 1;
  if (!is_chain) throw ConfigError("edges", "a GPT needs a chain of chunks");
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

std::vector<IndexedNorm> norms_in(const SharedBytes& bytes) {
  std::vector<IndexedNorm> norms(bytes->size() / sizeof(IndexedNorm));
  if (!norms.empty()) std::memcpy(norms.data(), bytes->data(), norms.size() * sizeof(IndexedNorm));
  return norms;
}

}  // namespace

class TrainingRank::Impl {
 public:
  Impl(const GptConfig& config, std::shared_ptr<const TextData> text, std::shared_ptr<StepExchange> exchange,
       const Pipeline& pipeline, StageId rank);

  GptStage& stage(Chunk chunk);
  void begin_iteration(const Iteration& iteration);
  void end_iteration();

  GptConfig config_;
  std::shared_ptr<const TextData> text_;
  std::shared_ptr<StepExchange> exchange_;
  std::uint32_t rank_;
  std::uint32_t first_rank_;  ///< owns the token embedding
  std::uint32_t last_rank_;   ///< owns the head
  Progress progress_;
  std::map<Chunk, std::unique_ptr<GptStage>> stages_;
  GptStage* last_stage_ = nullptr;
  std::vector<ModelParameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  double loss_ = 0.0;
  double gradient_norm_ = 0.0;

 private:
  [[nodiscard]] ModelParameter* tied_parameter(bool copy) const;
  void add_tied_gradients();
  [[nodiscard]] double global_norm() const;
  void clip();
};

TrainingRank::Impl::Impl(const GptConfig& config, std::shared_ptr<const TextData> text,
                         std::shared_ptr<StepExchange> exchange, const Pipeline& pipeline, StageId rank)
    : config_(config), text_(std::move(text)), exchange_(std::move(exchange)), rank_(rank) {
  config_.validate();
  require_chain(pipeline);
  at::set_num_threads(1);
  const Chunk last = static_cast<Chunk>(pipeline.chunks() - 1);
  const std::vector<LayerRange> ranges = divide_layers(config_.layers, pipeline.chunks());
  first_rank_ = pipeline.stage_of(0);
  last_rank_ = pipeline.stage_of(last);
  for (const Chunk chunk : pipeline.chunks_of(rank)) {
    auto stage = std::make_unique<GptStage>(config_, ranges[chunk], chunk == 0, chunk == last,
                                            pipeline.microbatches(), text_, progress_);
    for (ModelParameter& parameter : stage->chunk().parameters()) parameters_.push_back(&parameter);
    if (chunk == last) last_stage_ = stage.get();
    stages_.emplace(chunk, std::move(stage));
  }
  optimizer_ = std::make_unique<Optimizer>(config_, parameters_);
}

GptStage& TrainingRank::Impl::stage(Chunk chunk) {
  const auto found = stages_.find(chunk);
  if (found == stages_.end()) {
    throw Error("rank " + std::to_string(rank_) + " does not own chunk " + std::to_string(chunk));
  }
  return *found->second;
}

void TrainingRank::Impl::begin_iteration(const Iteration& iteration) {
  at::set_num_threads(1);
  progress_.iteration = iteration;
  if (iteration.kind == IterationKind::ForwardOnly) return;
  for (const ModelParameter* parameter : parameters_) parameter->grad.zero_();
}

void TrainingRank::Impl::end_iteration() {
  at::set_num_threads(1);
  if (last_stage_ != nullptr) loss_ = last_stage_->mean_loss();
  if (progress_.iteration.kind == IterationKind::ForwardOnly) return;
  if (config_.tied_embeddings) add_tied_gradients();
  if (config_.clip_norm > 0.0) clip();
  optimizer_->step();
  ++progress_.step;
}

ModelParameter* TrainingRank::Impl::tied_parameter(bool copy) const {
  for (ModelParameter* parameter : parameters_) {
    if (parameter->index == 0 && parameter->is_tied_copy == copy) return parameter;
  }
  return nullptr;
}

void TrainingRank::Impl::add_tied_gradients() {
  const ModelParameter* embedding = tied_parameter(false);
  const ModelParameter* head = tied_parameter(true);
  if (embedding != nullptr && head != nullptr) {
    embedding->grad.add_(head->grad);
    head->grad.copy_(embedding->grad);
    return;
  }
  const ModelParameter* own = embedding != nullptr ? embedding : head;
  if (own == nullptr) return;
  const std::uint32_t peer = embedding != nullptr ? last_rank_ : first_rank_;
  const SharedBytes theirs = exchange_->swap_with(rank_, peer, bytes_of(own->grad));
  if (theirs->size() != own->grad.nbytes()) {
    throw Error("rank " + std::to_string(peer) + " sent a tied gradient of " +
                std::to_string(theirs->size()) + " bytes instead of " + std::to_string(own->grad.nbytes()));
  }
  const at::Tensor other = at::empty_like(own->grad);
  std::memcpy(other.mutable_data_ptr(), theirs->data(), theirs->size());
  own->grad.add_(other);
}

/// Sums in canonical parameter order, which is the same on every rank and for every cut.
double TrainingRank::Impl::global_norm() const {
  std::vector<IndexedNorm> own;
  for (const ModelParameter* parameter : parameters_) {
    if (!parameter->is_tied_copy) own.push_back({parameter->index, squared_norm(parameter->grad)});
  }
  std::vector<double> squared(parameter_count(config_));
  for (const SharedBytes& bytes : exchange_->all_gather(rank_, std::as_bytes(std::span(own)))) {
    for (const IndexedNorm& norm : norms_in(bytes)) squared.at(norm.index) = norm.squared;
  }
  double sum = 0.0;
  for (const double part : squared) sum += part;
  return std::sqrt(sum);
}

void TrainingRank::Impl::clip() {
  gradient_norm_ = global_norm();
  if (!std::isfinite(gradient_norm_)) {
    throw Error("the gradient norm of step " + std::to_string(progress_.step) + " is not finite");
  }
  const double scale = config_.clip_norm / (gradient_norm_ + kClipEpsilon);
  if (scale >= 1.0) return;
  for (const ModelParameter* parameter : parameters_) parameter->grad.mul_(scale);
}

TrainingRank::TrainingRank(const GptConfig& config, std::shared_ptr<const TextData> text,
                           std::shared_ptr<StepExchange> exchange, const Pipeline& pipeline, StageId rank)
    : impl_(std::make_unique<Impl>(config, std::move(text), std::move(exchange), pipeline, rank)) {}

TrainingRank::~TrainingRank() = default;
TrainingRank::TrainingRank(TrainingRank&&) noexcept = default;
TrainingRank& TrainingRank::operator=(TrainingRank&&) noexcept = default;

host::Stage& TrainingRank::stage(Chunk chunk) { return impl_->stage(chunk); }
void TrainingRank::begin_iteration(const Iteration& iteration) { impl_->begin_iteration(iteration); }
void TrainingRank::end_iteration() { impl_->end_iteration(); }
bool TrainingRank::has_loss() const { return impl_->last_stage_ != nullptr; }
double TrainingRank::gradient_norm() const { return impl_->gradient_norm_; }
std::uint64_t TrainingRank::steps() const { return impl_->progress_.step; }

double TrainingRank::loss() const {
  if (!has_loss()) throw Error("rank " + std::to_string(impl_->rank_) + " does not own the last chunk");
  return impl_->loss_;
}

std::uint64_t TrainingRank::parameter_bytes() const {
  std::uint64_t bytes = 0;
  for (const ModelParameter* parameter : impl_->parameters_) bytes += parameter->value.nbytes();
  return bytes;
}

std::uint64_t TrainingRank::gradient_bytes() const {
  std::uint64_t bytes = 0;
  for (const ModelParameter* parameter : impl_->parameters_) bytes += parameter->grad.nbytes();
  return bytes;
}

std::size_t TrainingRank::saved_microbatches() const {
  std::size_t saved = 0;
  for (const auto& [chunk, stage] : impl_->stages_) saved += stage->saved_microbatches();
  return saved;
}

std::vector<ParameterDigest> TrainingRank::parameter_digests() const {
  std::vector<ParameterDigest> digests;
  for (const ModelParameter* parameter : impl_->parameters_) {
    digests.push_back({parameter->index, sha256(bytes_of(parameter->value))});
  }
  return digests;
}

}  // namespace sluice::gpt
