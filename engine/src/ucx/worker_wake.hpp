#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "sluice/clock.hpp"
#include "ucp_handles.hpp"

namespace sluice::ucx {

/// Sleeps until a notification or something for the worker to do. Like host::EventWake, a notification that
/// finds nobody asleep costs one atomic exchange.
class WorkerWake final : public Wake {
 public:
  explicit WorkerWake(const Worker& worker);
  ~WorkerWake() override;
  WorkerWake(const WorkerWake&) = delete;
  WorkerWake& operator=(const WorkerWake&) = delete;

  void notify() noexcept override;
  /// @param deadline in the time of SteadyClock
  void wait_until(Time deadline) override;

  /// The worker did something: what came of it may lie in a queue that its owner has already looked at, so
  /// the next wait returns at once. Only from the waiting thread.
  void happened() noexcept { happened_ = true; }

  [[nodiscard]] std::uint64_t sleeps() const noexcept { return sleeps_; }

  /// While it is not null, whoever waits holds the lock, and does not hold it while asleep.
  void give_up_asleep(std::mutex* turn) noexcept { turn_ = turn; }

 private:
  enum class State : std::uint8_t { Awake, Notified, Sleeping };

  void sleep(Time deadline);

  ucp_worker_h worker_;
  int worker_events_ = -1;
  int notifications_;
  std::atomic<State> state_{State::Awake};
  bool happened_ = false;
  std::mutex* turn_ = nullptr;
  std::uint64_t sleeps_ = 0;
};

}  // namespace sluice::ucx
