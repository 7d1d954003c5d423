#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "sluice/executor.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/spsc_ring.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::host {

/// Runs a rank's tasks on one thread, in launch order, whatever their lane: on a worker of its own, or on a
/// thread that the embedder lends.
class HostExecutor final : public Executor {
 public:
  struct Options {
    std::uint32_t rank = 0;
    /// Launched tasks held at once, the running one included.
    std::uint32_t depth = 1;
    /// How long the destructor waits for user code that does not return.
    Duration grace = std::chrono::seconds(60);
    /// There is no worker: another thread than the rank's own calls `run_one`.
    bool lent_thread = false;
  };

  /// @param stages user code of each of the stage's chunks, in ascending order of chunk
  /// @param wake of the rank's own thread, notified after each task
  /// @throws ConfigError naming `launch-ahead` or `stages`
  HostExecutor(const Pipeline& pipeline, StageId stage, std::vector<host::Stage*> stages,
               SlotBuffers& buffers, Wake& wake, Options options);
  /// Waits for the running task; those behind it are dropped. User code that does not return within
  /// the grace cannot be left running on memory that goes away: the process is then aborted, with the
  /// rank and the task on standard error. Precondition with a lent thread: it is not inside of `run_one`.
  ~HostExecutor() override;
  HostExecutor(const HostExecutor&) = delete;
  HostExecutor& operator=(const HostExecutor&) = delete;

  [[nodiscard]] std::uint32_t room(Lane /*lane*/) const override { return options_.depth - outstanding_; }
  void launch(const Launch& launch) override;
  bool poll(Done& done) override;
  [[nodiscard]] Time next_deadline() const override { return kNever; }
  [[nodiscard]] std::string failure() const override { return failure_; }

  /// Runs one launched task on the calling thread; waits for it until the deadline, or until somebody calls
  /// `stop_waiting`. All calls come from one thread, or one after the other.
  /// @return false if none came
  bool run_one(Time deadline);
  /// Ends a wait of `run_one`, from any thread.
  void stop_waiting() noexcept { worker_wake_.notify(); }

 private:
  void work();
  void finish(const Launch& launch);
  [[noreturn]] void abandon() const;
  void prepare();
  Done run(const Launch& launch);
  void call(const Launch& launch);
  void forward(const Launch& launch, host::Stage& code);
  void backward(const Launch& launch, host::Stage& code);
  [[nodiscard]] TaskContext context(const Launch& launch) const;

  const Pipeline& pipeline_;
  StageTasks tasks_;
  std::vector<host::Stage*> stages_;
  SlotBuffers& buffers_;
  Wake& wake_;
  Options options_;
  std::uint32_t outstanding_ = 0;
  SpscRing<Launch> launches_;
  SpscRing<Done> dones_;
  /// Written by the worker before the first failed Done, read after it.
  std::string failure_;
  bool prepared_ = false;
  EventWake worker_wake_;
  /// What the worker runs or ran last.
  std::atomic<Task> running_{};
  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  EventWake ended_wake_;
  std::thread worker_;
};

}  // namespace sluice::host
