#include "run/gpt_workload.hpp"

#include "sluice/error.hpp"

#if SLUICE_HAVE_TORCH

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "run/process_session.hpp"
#include "sluice/torch/gpt_config.hpp"
#include "sluice/torch/no_pipeline.hpp"
#include "sluice/torch/parameter_digest.hpp"
#include "sluice/torch/step_exchange.hpp"
#include "sluice/torch/text_data.hpp"
#include "sluice/torch/training_rank.hpp"

namespace sluice::tools {
namespace {

gpt::GptConfig model_config(const RunOptions& options) {
  const ModelOptions& model = options.model;
  gpt::GptConfig config;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.context = model.context;
  config.micro_batch_size = model.micro_batch_size;
  config.dropout = model.dropout;
  config.tied_embeddings = model.tied_embeddings;
  config.seed = options.seed;
  config.learning_rate = model.learning_rate;
  config.weight_decay = model.weight_decay;
  config.clip_norm = model.clip_norm;
  if (model.encoder.used()) {
    config.encoder = gpt::VitConfig{model.encoder.layers, model.encoder.width.value_or(model.width),
                                    model.encoder.heads.value_or(model.heads), model.encoder.image_grid,
                                    model.encoder.chunks};
  }
  config.validate();
  return config;
}

/// The project's README and docs: beside an installed command, or in the source tree.
std::vector<std::filesystem::path> own_docs() {
  std::error_code ignored;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path installed = binary.parent_path().parent_path() / "share" / "sluice" / "text";
  if (std::filesystem::is_directory(installed, ignored)) return {installed};
  const std::filesystem::path source = SLUICE_SOURCE_DIR;
  std::vector<std::filesystem::path> pages = {source / "README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(source / "docs", ignored)) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::sort(pages.begin() + 1, pages.end());
  return pages;
}

/// Nothing where the model describes images.
std::shared_ptr<const gpt::TextData> load_text(const ModelOptions& model) {
  if (model.encoder.used()) return nullptr;
  const std::vector<std::filesystem::path> paths =
      model.text.empty() ? own_docs() : std::vector{std::filesystem::path(model.text)};
  auto text = std::make_shared<const gpt::TextData>(gpt::TextData::load(paths, model.context));
  if (model.evaluates) text->require_held_out();
  return text;
}

/// A rank that is done waits for the slowest one, which may take as long as the watchdog allows.
std::chrono::nanoseconds step_timeout(const RunOptions& options) {
  return 2 * std::max<Duration>(std::chrono::minutes(1), options.settings().stall_timeout);
}

}  // namespace

class GptWorkload::Impl {
 public:
  Impl(const RunOptions& options, const Pipeline& pipeline, ProcessSession* session) : session_(session) {
    const gpt::GptConfig config = model_config(options);
    const auto text = load_text(options.model);
    stages_.resize(pipeline.chunks());
    if (session_ != nullptr) {
      ranks_.emplace_back(config, text, pipeline, session_->groups());
      take_stages(pipeline, session_->place().stage);
      return;
    }
    exchange_ = std::make_shared<gpt::InProcessExchange>(pipeline.stages(), step_timeout(options));
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      ranks_.emplace_back(config, text, exchange_, pipeline, stage);
      take_stages(pipeline, stage);
    }
  }

  host::Workload workload() {
    host::Workload workload;
    workload.stages = stages_;
    // Where the ranks are processes, the only one here is this process's.
    const auto of = [this](std::uint32_t rank) { return session_ == nullptr ? rank : 0; };
    workload.before_iteration = [this, of](std::uint32_t rank, const Iteration& iteration) {
      ranks_[of(rank)].begin_iteration(iteration);
    };
    workload.after_iteration = [this, of](std::uint32_t rank, const Iteration&) {
      ranks_[of(rank)].end_iteration();
    };
    if (exchange_) workload.on_failure = [this](const std::string& cause) { exchange_->abort(cause); };
    return workload;
  }

  [[nodiscard]] double loss() const {
    std::optional<double> own;
    for (const gpt::TrainingRank& rank : ranks_) {
      if (rank.has_loss()) own = rank.loss();
    }
    return session_ == nullptr ? own.value() : session_->from_whoever_knows(own);
  }

  [[nodiscard]] std::optional<Reduction> reduction() const {
    if (session_ == nullptr) return std::nullopt;
    return Reduction{ranks_.front().reduction_time(), ranks_.front().exposed_reduction_time()};
  }

  [[nodiscard]] std::string parameters_sha256() const {
    std::vector<gpt::ParameterDigest> digests;
    for (const gpt::TrainingRank& rank : ranks_) {
      const std::vector<gpt::ParameterDigest> own = rank.parameter_digests();
      digests.insert(digests.end(), own.begin(), own.end());
    }
    if (session_ != nullptr) digests = session_->of_stages(digests);
    return gpt::parameters_sha256(std::move(digests));
  }

 private:
  /// Of the newest rank.
  void take_stages(const Pipeline& pipeline, StageId stage) {
    for (const Chunk chunk : pipeline.chunks_of(stage)) stages_[chunk] = &ranks_.back().stage(chunk);
  }

  ProcessSession* session_;
  /// Only of ranks that are threads.
  std::shared_ptr<gpt::InProcessExchange> exchange_;
  std::vector<gpt::TrainingRank> ranks_;
  /// User code by chunk; null for those of other processes.
  std::vector<host::Stage*> stages_;
};

class UnpipelinedGpt::Impl {
 public:
  explicit Impl(const RunOptions& options)
      : model_(model_config(options), load_text(options.model), options.pipeline.microbatches) {}

  gpt::NoPipeline& model() { return model_; }

 private:
  gpt::NoPipeline model_;
};

GptWorkload::GptWorkload(const RunOptions& options, const Pipeline& pipeline, ProcessSession* session)
    : impl_(std::make_unique<Impl>(options, pipeline, session)) {}
GptWorkload::~GptWorkload() = default;

host::Workload GptWorkload::workload() { return impl_->workload(); }
double GptWorkload::loss() const { return impl_->loss(); }
std::optional<GptWorkload::Reduction> GptWorkload::reduction() const { return impl_->reduction(); }
std::string GptWorkload::parameters_sha256() const { return impl_->parameters_sha256(); }

UnpipelinedGpt::UnpipelinedGpt(const RunOptions& options) : impl_(std::make_unique<Impl>(options)) {}
UnpipelinedGpt::~UnpipelinedGpt() = default;

double UnpipelinedGpt::run(IterationKind kind) { return impl_->model().run(kind); }
std::string UnpipelinedGpt::parameters_sha256() const { return impl_->model().parameters_sha256(); }

}  // namespace sluice::tools

#else

namespace sluice::tools {
namespace {

[[noreturn]] void refuse_gpt() {
  throw ConfigError("emulate",
                    "this build has no LibTorch, so it can only emulate devices, e.g. --emulate f=2ms,b=4ms");
}

}  // namespace

class GptWorkload::Impl {};
class UnpipelinedGpt::Impl {};

GptWorkload::GptWorkload(const RunOptions&, const Pipeline&, ProcessSession*) { refuse_gpt(); }
GptWorkload::~GptWorkload() = default;
host::Workload GptWorkload::workload() { refuse_gpt(); }
double GptWorkload::loss() const { refuse_gpt(); }
std::optional<GptWorkload::Reduction> GptWorkload::reduction() const { refuse_gpt(); }
std::string GptWorkload::parameters_sha256() const { refuse_gpt(); }

UnpipelinedGpt::UnpipelinedGpt(const RunOptions&) { refuse_gpt(); }
UnpipelinedGpt::~UnpipelinedGpt() = default;
double UnpipelinedGpt::run(IterationKind) { refuse_gpt(); }
std::string UnpipelinedGpt::parameters_sha256() const { refuse_gpt(); }

}  // namespace sluice::tools

#endif
