#pragma once

#include <cstdint>

#include "sluice/host/emulated_executor.hpp"
#include "sluice/sim/timetable.hpp"

namespace sluice::sim {

using host::TaskTime;

/// An emulated device in virtual time: tells the timetable when its tasks end.
class SimExecutor final : public Executor {
 public:
  /// @param depth launched tasks a lane holds at once, the running one included
  /// @throws ConfigError naming `launch-ahead` if depth is 0
  SimExecutor(std::uint32_t rank, const Clock& clock, Timetable& timetable, TaskTime task_time,
              std::uint32_t depth = 1);

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return device_.room(lane); }
  void launch(const Launch& launch) override;
  bool poll(Done& done) override { return device_.poll(done); }
  [[nodiscard]] Time next_deadline() const override { return device_.next_deadline(); }

 private:
  std::uint32_t rank_;
  Timetable& timetable_;
  host::EmulatedExecutor device_;
};

}  // namespace sluice::sim
