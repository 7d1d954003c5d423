#pragma once

#include <chrono>

#include "sluice/clock.hpp"

namespace sluice::host {

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace sluice::host
