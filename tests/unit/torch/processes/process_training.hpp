#pragma once

#include <ATen/ATen.h>

#include <cstring>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../sequential_run.hpp"
#include "sluice/torch/process_groups.hpp"
#include "sluice/torch/tensor_payload.hpp"
#include "sluice/torch/training_rank.hpp"

namespace sluice::gpt::test {

/// One process of a training run, which runs its tasks in a fixed order. Activations and gradients go to
/// the next stage by a gathering of the whole replica, so that all its ranks move in step.
class ProcessTraining {
 public:
  /// @param pipeline with the microbatches of one replica
  ProcessTraining(const GptConfig& config, const process::RankGrid& grid, const Pipeline& pipeline,
                  TcpStoreBootstrap& bootstrap)
      : config_(config),
        pipeline_(pipeline),
        groups_(std::make_shared<ProcessGroups>(grid, bootstrap, std::chrono::seconds(60))),
        rank_(config, small_text(config.context), pipeline_, groups_) {
    for (const Chunk chunk : own_chunks()) rank_.stage(chunk).prepare(pipeline_.microbatches());
  }

  /// @param after_chunk called when the gradients of a chunk are complete on this rank, the last chunk first
  void train(const std::function<void(Chunk)>& after_chunk = {}) {
    begin(IterationKind::Training);
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) forward(m);
    for (Microbatch i = pipeline_.microbatches(); i-- > 0;) backward(i);
    for (const Chunk chunk : own_chunks() | std::views::reverse) {
      for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) rank_.stage(chunk).weight_grad(context(m));
      if (after_chunk) after_chunk(chunk);
    }
    rank_.end_iteration();
  }

  void evaluate() {
    begin(IterationKind::ForwardOnly);
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) forward(m);
    rank_.end_iteration();
  }

  [[nodiscard]] TrainingRank& rank() { return rank_; }
  [[nodiscard]] ProcessGroups& groups() { return *groups_; }

  /// Of the parameters of all ranks; fails if members or replicas differ.
  [[nodiscard]] std::string sha256() {
    const std::vector<ParameterDigest> own = rank_.parameter_digests();
    std::vector<ParameterDigest> all;
    for (const SharedBytes& bytes : groups_->world().all_gather(std::as_bytes(std::span(own)))) {
      const std::size_t before = all.size();
      all.resize(before + bytes->size() / sizeof(ParameterDigest));
      std::memcpy(all.data() + before, bytes->data(), bytes->size());
    }
    return parameters_sha256(std::move(all));
  }

 private:
  [[nodiscard]] process::RankPlace place() const { return groups_->place(); }
  [[nodiscard]] bool is_own(Chunk chunk) const { return pipeline_.stage_of(chunk) == place().stage; }
  [[nodiscard]] std::vector<Chunk> own_chunks() const {
    const auto chunks = pipeline_.chunks_of(place().stage);
    return {chunks.begin(), chunks.end()};
  }

  void begin(IterationKind kind) {
    iteration_ = {next_++, kind};
    rank_.begin_iteration(iteration_);
  }

  void forward(Microbatch microbatch) {
    std::vector<host::Payload> input;
    for (Chunk chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      std::vector<host::Payload> output(pipeline_.out_edges(chunk).size());
      if (is_own(chunk)) rank_.stage(chunk).forward(context(microbatch), input, output);
      if (chunk + 1U < pipeline_.chunks()) pass(output, chunk, static_cast<Chunk>(chunk + 1));
      input = std::move(output);
    }
  }

  void backward(Microbatch microbatch) {
    std::vector<host::Payload> output_grad;
    for (Chunk chunk = static_cast<Chunk>(pipeline_.chunks()); chunk-- > 0;) {
      std::vector<host::Payload> input_grad(pipeline_.in_edges(chunk).size());
      if (is_own(chunk)) {
        rank_.stage(chunk).backward(context(microbatch), /*whole=*/false, output_grad, input_grad);
      }
      if (chunk > 0) pass(input_grad, chunk, static_cast<Chunk>(chunk - 1));
      output_grad = std::move(input_grad);
    }
  }

  /// Hands a tensor over to the same member of the next chunk's stage.
  void pass(std::vector<host::Payload>& payload, Chunk from, Chunk to) {
    const StageId sender = pipeline_.stage_of(from);
    if (sender == pipeline_.stage_of(to)) return;
    at::Tensor own = at::empty({0}, at::kFloat);
    if (is_own(from)) own = take_single(payload, "activation");
    const auto all =
        groups_->replica().all_gather({static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes()});
    if (!is_own(to)) return;
    const std::vector<std::byte>& bytes = *all[sender * groups_->grid().group + place().member];
    const at::Tensor tensor =
        at::empty({config_.micro_batch_size, config_.context, config_.width}, at::kFloat);
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    payload.clear();
    payload.emplace_back();
    put_single(tensor, payload, "activation");
  }

  [[nodiscard]] host::TaskContext context(Microbatch microbatch) const {
    return {groups_->grid().rank_of(place()), iteration_.index, microbatch, microbatch,
            iteration_.kind == IterationKind::ForwardOnly};
  }

  GptConfig config_;
  Pipeline pipeline_;
  std::shared_ptr<ProcessGroups> groups_;
  TrainingRank rank_;
  Iteration iteration_;
  std::uint64_t next_ = 0;
};

}  // namespace sluice::gpt::test
