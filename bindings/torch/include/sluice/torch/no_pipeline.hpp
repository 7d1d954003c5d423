#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sluice/iteration.hpp"
#include "sluice/torch/training_rank.hpp"

namespace sluice::gpt {

/// The reference a pipeline's results must equal bit for bit: the same microbatches, one by one, each
/// forward and then its whole backward, on the calling thread with the model in one chunk.
class NoPipeline {
 public:
  /// @throws ConfigError naming the field if the settings are bad
  NoPipeline(const GptConfig& config, std::shared_ptr<const TextData> text, Microbatch microbatches);

  /// Runs one iteration.
  /// @return mean loss: training loss or held-out loss
  /// @throws ConfigError naming `text` for an evaluation without held-out text
  double run(IterationKind kind);

  [[nodiscard]] const TrainingRank& rank() const noexcept { return rank_; }
  [[nodiscard]] std::string parameters_sha256() const;

 private:
  Pipeline pipeline_;
  TrainingRank rank_;
  std::uint64_t iterations_ = 0;
};

}  // namespace sluice::gpt
