#include "sluice/torch/training_rank.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "gpt_stage.hpp"
#include "optimizer.hpp"
#include "reduction_lane.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/group_exchange.hpp"
#include "sluice/torch/tensor_parallel.hpp"
#include "sluice/torch/vit_chunk.hpp"
#include "vit_stage.hpp"

namespace sluice::gpt {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as torch's clip_grad_norm_

struct IndexedNorm {
  std::uint32_t index = 0;
  /// The norm of one member's part.
  std::uint32_t is_part = 0;
  double squared = 0.0;
};

void require_chain(const Pipeline& pipeline) {
  bool is_chain = pipeline.edges().size() + 1 == pipeline.chunks();
  for (const Edge& edge : pipeline.edges()) is_chain = is_chain && edge.to == edge.from + 1;
  if (!is_chain) throw ConfigError("edges", "a GPT needs a chain of chunks");
}

/// The chunk that embeds the text.
Chunk embedding_chunk(const GptConfig& config, std::uint32_t chunks) {
  if (!config.encoder) return 0;
  const std::vector<VitLayers> layers = divide_vit_layers(config, chunks);
  const auto joining =
      std::ranges::find_if(layers, [](const VitLayers& each) { return each.decoder.has_first(); });
  return static_cast<Chunk>(joining - layers.begin());
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

template <typename Value>
void append_values(const SharedBytes& bytes, std::vector<Value>& values) {
  const std::size_t before = values.size();
  values.resize(before + bytes->size() / sizeof(Value));
  if (!bytes->empty()) std::memcpy(values.data() + before, bytes->data(), bytes->size());
}

/// Digest of a whole parameter of which each member of a tensor-parallel group has a part.
std::array<std::uint8_t, 32> digest_of_parts(const ModelParameter& parameter, ProcessGroup& group) {
  std::vector<at::Tensor> parts;
  for (const SharedBytes& bytes : group.all_gather(bytes_of(parameter.value))) {
    if (bytes->size() != parameter.value.nbytes()) {
      throw Error("a member's part of " + parameter.name + " has " + std::to_string(bytes->size()) +
                  " bytes, not " + std::to_string(parameter.value.nbytes()));
    }
    parts.push_back(at::empty_like(parameter.value));
    std::memcpy(parts.back().mutable_data_ptr(), bytes->data(), parameter.value.nbytes());
  }
  return sha256(bytes_of(join_parts(parts, parameter.split)));
}

}  // namespace

class TrainingRank::Impl {
 public:
  /// @param groups null for a rank that is a thread
  Impl(const GptConfig& config, std::shared_ptr<const TextData> text, std::shared_ptr<StepExchange> exchange,
       const Pipeline& pipeline, StageId stage, std::shared_ptr<ProcessGroups> groups);

  ChunkStage& stage(Chunk chunk);
  void begin_iteration(const Iteration& iteration);
  void end_iteration();

  GptConfig config_;
  std::shared_ptr<const TextData> text_;
  std::shared_ptr<StepExchange> exchange_;
  std::shared_ptr<ProcessGroups> groups_;
  std::uint32_t rank_;         ///< in the run
  std::uint32_t place_;        ///< in the exchange
  std::uint32_t first_place_;  ///< owns the token embedding
  std::uint32_t last_place_;   ///< owns the head
  Progress progress_;
  std::map<Chunk, std::unique_ptr<ChunkStage>> stages_;
  ChunkStage* last_stage_ = nullptr;
  std::vector<ModelParameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ReductionLane> reduction_;  ///< null with one replica
  double loss_ = 0.0;
  double gradient_norm_ = 0.0;

 private:
  [[nodiscard]] std::unique_ptr<ChunkStage> make_stage(const Pipeline& pipeline, Chunk chunk) const;
  [[nodiscard]] std::uint32_t place_of(StageId stage) const;
  [[nodiscard]] TensorParallel tensor() const;
  void check_groups(const Pipeline& pipeline) const;
  void start_reduction();
  [[nodiscard]] double mean_loss() const;
  [[nodiscard]] ModelParameter* tied_parameter(bool copy) const;
  void add_tied_gradients();
  [[nodiscard]] double global_norm() const;
  void clip();
};

TrainingRank::Impl::Impl(const GptConfig& config, std::shared_ptr<const TextData> text,
                         std::shared_ptr<StepExchange> exchange, const Pipeline& pipeline, StageId stage,
                         std::shared_ptr<ProcessGroups> groups)
    : config_(config),
      text_(std::move(text)),
      exchange_(std::move(exchange)),
      groups_(std::move(groups)),
      rank_(stage),
      place_(place_of(stage)) {
  config_.validate();
  require_chain(pipeline);
  if (groups_) {
    check_groups(pipeline);
    rank_ = groups_->grid().rank_of(groups_->place());
    progress_.replicas = groups_->grid().replicas;
    progress_.replica = groups_->place().replica;
  }
  at::set_num_threads(1);
  first_place_ = place_of(pipeline.stage_of(embedding_chunk(config_, pipeline.chunks())));
  last_place_ = place_of(pipeline.stage_of(static_cast<Chunk>(pipeline.chunks() - 1)));
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    std::unique_ptr<ChunkStage> code = make_stage(pipeline, chunk);
    for (ModelParameter* parameter : code->parameters()) parameters_.push_back(parameter);
    if (code->is_last()) last_stage_ = code.get();
    stages_.emplace(chunk, std::move(code));
  }
  optimizer_ = std::make_unique<Optimizer>(config_, parameters_);
  if (progress_.replicas > 1) start_reduction();
}

/// In a replica's exchange, stages follow one another, each with all members of its group.
std::uint32_t TrainingRank::Impl::place_of(StageId stage) const {
  return groups_ ? stage * groups_->grid().group + groups_->place().member : stage;
}

TensorParallel TrainingRank::Impl::tensor() const {
  return {groups_ && groups_->grid().group > 1 ? &groups_->tensor() : nullptr};
}

void TrainingRank::Impl::check_groups(const Pipeline& pipeline) const {
  const process::RankGrid& grid = groups_->grid();
  if (grid.stages != pipeline.stages()) {
    throw ConfigError("stages", "the pipeline has " + std::to_string(pipeline.stages()) +
                                    ", the ranks have " + std::to_string(grid.stages));
  }
  if (grid.replicas > std::numeric_limits<Microbatch>::max() / pipeline.microbatches()) {
    throw ConfigError("dp", std::to_string(grid.replicas) + " replicas have too many microbatches");
  }
  require_divisible(config_, grid.group);
}

/// Backwards end with the first chunk, so the last chunk's gradients are final first.
void TrainingRank::Impl::start_reduction() {
  std::vector<std::vector<at::Tensor>> gradients;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    const std::size_t position = gradients.size();
    stage->second->on_gradients_final([this, position] { reduction_->add(position); });
    std::vector<at::Tensor>& chunk = gradients.emplace_back();
    for (const ModelParameter* parameter : stage->second->parameters()) chunk.push_back(parameter->grad);
  }
  reduction_ = std::make_unique<ReductionLane>(groups_->data(), std::move(gradients));
}

std::unique_ptr<ChunkStage> TrainingRank::Impl::make_stage(const Pipeline& pipeline, Chunk chunk) const {
  const std::uint32_t chunks = pipeline.chunks();
  if (config_.encoder) {
    return std::make_unique<VitStage>(config_, divide_vit_layers(config_, chunks)[chunk],
                                      pipeline.microbatches(), progress_, tensor());
  }
  return std::make_unique<GptStage>(config_, divide_layers(config_.layers, chunks)[chunk], chunk == 0,
                                    chunk + 1U == chunks, pipeline.microbatches(), text_, progress_,
                                    tensor());
}

ChunkStage& TrainingRank::Impl::stage(Chunk chunk) {
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
  for (const auto& [chunk, stage] : stages_) stage->begin_training();
  if (reduction_) reduction_->begin();
}

void TrainingRank::Impl::end_iteration() {
  at::set_num_threads(1);
  const bool is_training = progress_.iteration.kind == IterationKind::Training;
  if (is_training && reduction_) reduction_->wait();
  if (last_stage_ != nullptr) loss_ = mean_loss();
  if (!is_training) return;
  if (config_.tied_embeddings) add_tied_gradients();
  if (config_.clip_norm > 0.0) clip();
  optimizer_->step();
  ++progress_.step;
}

/// Sums in the order of microbatches in the step.
double TrainingRank::Impl::mean_loss() const {
  std::vector<double> losses(last_stage_->losses().begin(), last_stage_->losses().end());
  if (progress_.replicas > 1) {
    const auto all = groups_->data().all_gather(std::as_bytes(last_stage_->losses()));
    losses.clear();
    for (const SharedBytes& bytes : all) append_values(bytes, losses);
  }
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
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
  const std::uint32_t peer = embedding != nullptr ? last_place_ : first_place_;
  const SharedBytes theirs = exchange_->swap_with(place_, peer, bytes_of(own->grad));
  if (theirs->size() != own->grad.nbytes()) {
    throw Error("rank " + std::to_string(peer) + " sent a tied gradient of " +
                std::to_string(theirs->size()) + " bytes instead of " + std::to_string(own->grad.nbytes()));
  }
  const at::Tensor other = at::empty_like(own->grad);
  std::memcpy(other.mutable_data_ptr(), theirs->data(), theirs->size());
  own->grad.add_(other);
}

/// Sums in canonical parameter order, the parts of one parameter in member order, which is the same on every
/// rank and for every cut.
double TrainingRank::Impl::global_norm() const {
  std::vector<IndexedNorm> own;
  for (const ModelParameter* parameter : parameters_) {
    if (parameter->is_tied_copy) continue;
    const bool is_part = parameter->split != Split::Whole;
    own.push_back({parameter->index, is_part ? 1U : 0U, squared_norm(parameter->grad)});
  }
  std::vector<double> squared(model_parameter_count(config_));
  for (const SharedBytes& bytes : exchange_->all_gather(place_, std::as_bytes(std::span(own)))) {
    std::vector<IndexedNorm> norms;
    append_values(bytes, norms);
    for (const IndexedNorm& norm : norms) {
      double& sum = squared.at(norm.index);
      sum = norm.is_part != 0 ? sum + norm.squared : norm.squared;
    }
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
    : impl_(std::make_unique<Impl>(config, std::move(text), std::move(exchange), pipeline, rank, nullptr)) {}

TrainingRank::TrainingRank(const GptConfig& config, std::shared_ptr<const TextData> text,
                           const Pipeline& pipeline, std::shared_ptr<ProcessGroups> groups)
    : impl_(std::make_unique<Impl>(config, std::move(text), std::make_shared<GroupExchange>(groups), pipeline,
                                   groups->place().stage, groups)) {}

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

Duration TrainingRank::reduction_time() const {
  return impl_->reduction_ ? impl_->reduction_->busy() : Duration{};
}

Duration TrainingRank::exposed_reduction_time() const {
  return impl_->reduction_ ? impl_->reduction_->exposed() : Duration{};
}

std::vector<ParameterDigest> TrainingRank::parameter_digests() const {
  std::vector<ParameterDigest> digests;
  for (const ModelParameter* parameter : impl_->parameters_) {
    digests.push_back({parameter->index, parameter->split == Split::Whole
                                             ? sha256(bytes_of(parameter->value))
                                             : digest_of_parts(*parameter, impl_->groups_->tensor())});
  }
  return digests;
}

}  // namespace sluice::gpt
