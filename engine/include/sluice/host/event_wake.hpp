#pragma once

#include <atomic>
#include <cstdint>

#include "sluice/clock.hpp"

namespace sluice::host {

/// Sleeps on an event descriptor. A notification that finds nobody asleep costs one atomic exchange.
///
/// One thread waits; any thread notifies.
class EventWake final : public Wake {
 public:
  /// @throws Error if the system has no descriptor to give
  EventWake();
  ~EventWake() override;
  EventWake(const EventWake&) = delete;
  EventWake& operator=(const EventWake&) = delete;

  void notify() noexcept override;
  /// @param deadline in the time of SteadyClock
  void wait_until(Time deadline) override;

  /// How often a wait really slept.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return sleeps_; }

 private:
  enum class State : std::uint8_t { Awake, Notified, Sleeping };

  int descriptor_;
  std::atomic<State> state_{State::Awake};
  std::uint64_t sleeps_ = 0;
};

/// Spins, then yields, then sleeps: what an idle thread does until it is reset.
class Idler {
 public:
  explicit Idler(Wake& wake) : wake_(wake) {}

  /// Something happened: start again with spinning.
  void reset() noexcept { turns_ = 0; }
  /// Passes a little time, at most until `deadline`.
  void wait(Time deadline);

 private:
  static constexpr std::uint32_t kSpins = 32;
  static constexpr std::uint32_t kYields = 4;

  Wake& wake_;
  std::uint32_t turns_ = 0;
};

}  // namespace sluice::host
