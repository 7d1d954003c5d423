#pragma once

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "sluice/torch/training_rank.hpp"

namespace sluice::gpt::test {

inline constexpr Microbatch kMicrobatches = 4;

inline GptConfig small_config() {
  GptConfig config;
  config.layers = 4;
  config.width = 16;
  config.heads = 2;
  config.context = 8;
  config.micro_batch_size = 2;
  config.clip_norm = 0.5;
  return config;
}

inline std::shared_ptr<const TextData> small_text(std::uint32_t context = small_config().context) {
  std::string text;
  for (int line = 0; line < 60; ++line) text += "line " + std::to_string(line * line) + " of the text\n";
  return std::make_shared<const TextData>(text, context);
}

/// In which order the driver below runs the backward passes of an iteration.
enum class Order {
  WholeInOrder,   ///< whole backwards, microbatch 0 first
  SplitInOrder,   ///< input gradient and weight gradient as two tasks, one after the other
  SplitReversed,  ///< input gradients from the last microbatch to the first, then weights in order
  WholeReversed,  ///< accumulates out of order: the one that must differ
};

/// All ranks of a pipeline, whose tasks run one by one in the test's thread.
class SequentialRun {
 public:
  SequentialRun(const GptConfig& config, const Pipeline& pipeline,
                std::shared_ptr<const TextData> text = small_text())
      : pipeline_(pipeline) {
    const auto exchange = std::make_shared<InProcessExchange>(pipeline.stages(), std::chrono::seconds(60));
    for (std::uint32_t rank = 0; rank < pipeline.stages(); ++rank) {
      ranks_.emplace_back(config, text, exchange, pipeline, static_cast<StageId>(rank));
    }
    for (Chunk chunk = 0; chunk < pipeline.chunks(); ++chunk) stage(chunk).prepare(pipeline.microbatches());
  }

  void train(Order order) {
    begin(IterationKind::Training);
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) forward(m);
    const bool reversed = order == Order::SplitReversed || order == Order::WholeReversed;
    const bool whole = order == Order::WholeInOrder || order == Order::WholeReversed;
    for (Microbatch i = 0; i < pipeline_.microbatches(); ++i) {
      const Microbatch m = reversed ? pipeline_.microbatches() - 1 - i : i;
      backward(m, whole);
      if (order == Order::SplitInOrder) weight_grad(m);
    }
    if (order == Order::SplitReversed) {
      for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) weight_grad(m);
    }
    end();
  }

  double evaluate() {
    begin(IterationKind::ForwardOnly);
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) forward(m);
    end();
    return loss();
  }

  void begin(IterationKind kind) {
    iteration_ = {next_++, kind};
    for (TrainingRank& rank : ranks_) rank.begin_iteration(iteration_);
  }

  void forward(Microbatch microbatch) {
    std::vector<host::Payload> input;
    for (Chunk chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      std::vector<host::Payload> output(pipeline_.out_edges(chunk).size());
      stage(chunk).forward(context(chunk, microbatch), input, output);
      input = std::move(output);
    }
  }

  void backward(Microbatch microbatch, bool whole) {
    std::vector<host::Payload> output_grad;
    for (Chunk chunk = static_cast<Chunk>(pipeline_.chunks()); chunk-- > 0;) {
      std::vector<host::Payload> input_grad(pipeline_.in_edges(chunk).size());
      stage(chunk).backward(context(chunk, microbatch), whole, output_grad, input_grad);
      output_grad = std::move(input_grad);
    }
  }

  void weight_grad(Microbatch microbatch) {
    for (Chunk chunk = 0; chunk < pipeline_.chunks(); ++chunk)
      stage(chunk).weight_grad(context(chunk, microbatch));
  }

  /// Ends the iteration on all ranks at once, because they exchange norms.
  void end() {
    std::vector<std::future<void>> ending;
    for (TrainingRank& rank : ranks_) {
      ending.push_back(std::async(std::launch::async, [&rank] { rank.end_iteration(); }));
    }
    for (std::future<void>& rank : ending) rank.get();
  }

  [[nodiscard]] host::Stage& stage(Chunk chunk) { return rank(pipeline_.stage_of(chunk)).stage(chunk); }
  [[nodiscard]] TrainingRank& rank(std::size_t rank) { return ranks_.at(rank); }
  [[nodiscard]] std::vector<TrainingRank>& ranks() { return ranks_; }

  [[nodiscard]] double loss() {
    return std::ranges::find_if(ranks_, [](const TrainingRank& rank) { return rank.has_loss(); })->loss();
  }

  [[nodiscard]] std::string sha256() const {
    std::vector<ParameterDigest> digests;
    for (const TrainingRank& rank : ranks_) {
      const std::vector<ParameterDigest> own = rank.parameter_digests();
      digests.insert(digests.end(), own.begin(), own.end());
    }
    return parameters_sha256(std::move(digests));
  }

  [[nodiscard]] host::TaskContext context(Chunk chunk, Microbatch microbatch) const {
    return {pipeline_.stage_of(chunk), iteration_.index, microbatch, microbatch,
            iteration_.kind == IterationKind::ForwardOnly};
  }

 private:
  Pipeline pipeline_;
  std::vector<TrainingRank> ranks_;
  Iteration iteration_;
  std::uint64_t next_ = 0;
};

}  // namespace sluice::gpt::test
