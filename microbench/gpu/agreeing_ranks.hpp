#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/clock.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::microbench {

/// One rank's end of what is measured, with all that it needs.
class AgreeingRank {
 public:
  virtual ~AgreeingRank() = default;
  [[nodiscard]] virtual Agreement& agreement() = 0;
  /// While the rank waits for the others: what its medium has to be driven by.
  virtual void idle() {}
};

/// The tasks that are agreed on, iteration by iteration.
struct AgreedStage {
  Pipeline pipeline = Pipeline::chain(1, 64);
  StageTasks tasks{pipeline, 0};
};

using MakeRank = std::function<std::unique_ptr<AgreeingRank>(process::Bootstrap& bootstrap)>;

inline constexpr std::uint32_t kAgreeingRanks = 2;

/// Two threads, a rank each, which become ready for the same task at the same time, again and again.
/// @param decisions at least so many
/// @return from then until the last rank has the decision, each by its own start, in us
/// @throws what making a rank throws; Error if no decision comes
[[nodiscard]] std::vector<double> time_agreement(std::uint32_t decisions, const AgreedStage& stage,
                                                 const MakeRank& make);

}  // namespace sluice::microbench
