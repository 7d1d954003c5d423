#pragma once

#include <string>

#include "sluice/rules.hpp"
#include "sluice/sim/world.hpp"
#include "sluice/trace/recorded_run.hpp"

namespace sluice::test {

/// A simulated run to be recorded. Its messages take different times.
struct RecordedWorld {
  Pipeline pipeline;
  std::string method = "bf";
  std::uint32_t limit = 32;
  Rules rules{};
  std::uint64_t iterations = 1;
  sim::Overhead overhead{};

  static constexpr Duration kForward{1000};
  /// The whole of it.
  static constexpr Duration kBackward{2000};
  static constexpr Duration kWeightGrad{1000};
  static Duration message_time(const MessageId& id);

  /// Runs it, iterations counted from 1.
  [[nodiscard]] trace::RecordedRun record() const;
};

}  // namespace sluice::test
