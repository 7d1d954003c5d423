#include "sluice/stage_tasks.hpp"

#include <limits>
#include <string>

#include "sluice/error.hpp"

namespace sluice {

StageTasks::StageTasks(const Pipeline& pipeline, StageId stage)
    : stage_(stage), microbatches_(pipeline.microbatches()), position_(pipeline.chunks(), kForeign) {
  if (stage >= pipeline.stages()) {
    throw ConfigError("stage", std::to_string(stage) + " is not one of " + std::to_string(pipeline.stages()));
  }
  chunks_.assign(pipeline.chunks_of(stage).begin(), pipeline.chunks_of(stage).end());
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) position_[chunks_[i]] = i;
  if (std::uint64_t{microbatches_} * chunks_.size() * kPasses >= std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError("microbatches",
                      "stage " + std::to_string(stage) + " would have more tasks than can be numbered");
  }
}

}  // namespace sluice
