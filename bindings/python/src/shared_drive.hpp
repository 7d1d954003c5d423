#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/executor.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::python {

/// Runs a rank's tasks on a thread that itself drives the rank before and after each, so that neither a
/// finished task nor the next one is handed from thread to thread. Another thread, the one inside of the
/// rank's `run`, drives while a task runs, and is left asleep otherwise.
///
/// Whoever drives holds the turn. The wakes for messages give it up while their thread sleeps.
class SharedDrive {
 public:
  /// What the calling thread drives. Its functions are called with the turn.
  struct Run {
    Dispatcher& dispatcher;
    /// Where the calling thread sleeps.
    Wake& messages;
    /// The run has failed: nothing more is launched.
    std::function<bool()> failed;
    std::function<void(Time)> progressed;
  };

  /// @param other_messages where the other thread sleeps while a task runs
  SharedDrive(const Pipeline& pipeline, StageId stage, std::vector<host::Stage*> code,
              host::SlotBuffers& buffers, host::HostExecutor::Options options, Wake& other_messages);

  [[nodiscard]] std::mutex& turn() noexcept { return turn_; }
  /// The executor of the rank's run. This outlives it.
  [[nodiscard]] std::unique_ptr<Executor> executor();
  /// Where the rank's run sleeps.
  [[nodiscard]] Wake& run_wake() noexcept { return other_; }

  /// Before each run.
  void begin() noexcept;
  /// Called by the other thread, with the turn, when its run has ended.
  void end() noexcept;
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// Time that the calling thread spent driving since `begin`.
  [[nodiscard]] Duration driving() const noexcept { return driving_; }

  /// Runs the launched task, if there is one.
  bool run_task() { return tasks_.run_one(Time{}); }
  /// Launches what can run; waits for it, or for the end of the run, until the deadline.
  /// @return whether there is a task to run
  bool drive(const Run& run, Time deadline) { return drive(run, deadline, false); }
  /// As `drive`, without waiting: the calling thread turns to something else, and the other one drives until
  /// its next `drive`.
  bool drive_and_leave(const Run& run) { return drive(run, clock_.now(), true); }

 private:
  class Launches;
  /// Messages are the other thread's only while a task runs.
  class Other final : public Wake {
   public:
    Other(SharedDrive& drive, Wake& messages) : drive_(drive), messages_(messages) {}
    void notify() noexcept override;
    void wait_until(Time deadline) override;
    /// A task starts. It may still sleep as in the last one, while what it was to be woken by is gone.
    void attend() noexcept {
      messages_.notify();
      no_task_.notify();
    }

   private:
    SharedDrive& drive_;
    Wake& messages_;
    host::EventWake no_task_;
    std::atomic<bool> notified_{false};
  };
  struct Nobody final : Wake {
    void notify() noexcept override {}
    void wait_until(Time /*deadline*/) override {}
  };

  bool drive(const Run& run, Time deadline, bool leaves);
  /// The other thread takes over.
  void attend() noexcept;
  bool advance(const Run& run);
  void launch(const Launch& launch);

  const host::SteadyClock clock_;
  std::mutex turn_;
  Nobody nobody_;
  Other other_;
  host::HostExecutor tasks_;
  host::EventWake end_wake_;
  std::atomic<bool> ended_{false};
  Duration driving_{0};
  // With the turn:
  bool over_ = false;
  bool launched_ = false;
  bool in_task_ = false;
  /// Where the calling thread sleeps; null while it does not.
  Wake* sleeper_ = nullptr;
  /// For the other thread's run, which ends with it.
  std::exception_ptr thrown_;
};

}  // namespace sluice::python
