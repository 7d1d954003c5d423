#pragma once

#include <atomic>
#include <cstdint>

#include "sluice/clock.hpp"

namespace sluice::cuda {

/// Sleeps on a word of memory, which may be shared by several processes: any of them ends the wait. A
/// notification that finds nobody asleep costs one atomic exchange.
///
/// One thread waits; any thread of any process notifies.
class IpcWake final : public Wake {
 public:
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  /// @param word 0 at first; outlives the wake
  explicit IpcWake(std::atomic<std::uint32_t>& word) : word_(word) {}

  void notify() noexcept override;
  /// @param deadline in the time of SteadyClock
  void wait_until(Time deadline) override;

 private:
  enum State : std::uint32_t { Awake, Notified, Sleeping };

  std::atomic<std::uint32_t>& word_;
};

}  // namespace sluice::cuda
