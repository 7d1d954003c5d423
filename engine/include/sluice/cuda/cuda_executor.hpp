#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/task_code.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::cuda {

/// Runs a rank's tasks on a device: a stream a lane, on which tasks are put as they are launched. Their end
/// is read from pinned memory, so that polling makes no call of the runtime and cannot disturb a capture; a
/// device error is looked for when nothing has ended for a while. Nobody is notified of an end: its deadline
/// is `kAnyTime` while tasks run.
///
/// Used by one thread at a time; whoever launches gets the executor's device as the thread's.
class CudaExecutor final : public Executor {
 public:
  /// Read from the marks that a task's code makes, or asked of events, which needs no marks but calls of the
  /// runtime.
  enum class Completion { Flags, Events };

  struct Options {
    std::uint32_t rank = 0;
    int device = 0;
    /// Launched tasks a lane holds at once, the running one included.
    std::uint32_t depth = 2;
    /// How long before the expected end of the running task the next one may be launched.
    Duration lead = Duration::max();
    Completion completion = Completion::Flags;
    /// Nothing ended for so long: the device is asked whether it failed.
    Duration error_interval = std::chrono::milliseconds(10);
    /// How long the destructor waits for tasks that do not end.
    Duration grace = std::chrono::seconds(60);
  };

  /// @param slots of the stage
  /// @throws ConfigError naming `launch-ahead` or `device`; CudaError
  CudaExecutor(const Clock& clock, const Pipeline& pipeline, StageId stage, std::uint32_t slots,
               TaskCode& code, const Options& options);
  /// Waits for what was launched. A task that does not end within the grace cannot be left running on memory
  /// that goes away: the process is then aborted, with the rank and the task on standard error.
  ~CudaExecutor() override;
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  [[nodiscard]] std::uint32_t room(Lane lane) const override;
  /// An error of the runtime becomes the task's failure.
  void launch(const Launch& launch) override;
  bool poll(Done& done) override;
  [[nodiscard]] Time next_deadline() const override;
  [[nodiscard]] std::string failure() const override { return failure_; }

  /// A place of the completion board for each (chunk, pass, slot).
  [[nodiscard]] std::uint32_t place_of(const Launch& launch) const;
  [[nodiscard]] static std::uint32_t places(const Pipeline& pipeline, StageId stage, std::uint32_t slots);
  [[nodiscard]] cudaStream_t stream(Lane lane) const noexcept { return queue(lane).stream.get(); }
  [[nodiscard]] const CompletionBoard& board() const noexcept { return board_; }
  /// For who launches at its places himself, to capture or verify, while nothing of the executor runs.
  [[nodiscard]] CompletionBoard& board() noexcept { return board_; }

 private:
  struct Entry {
    Done done;
    std::uint32_t place = 0;
    Time launched{};
    /// By the average of its pass so far.
    Time expected_end{};
    bool failed = false;
    /// Null where completion is read from flags.
    Event ended;
  };
  struct Queue {
    Stream stream;
    std::vector<Entry> ring;
    std::uint32_t head = 0;
    std::uint32_t size = 0;
    Time last_ended{};

    [[nodiscard]] Entry& at(std::uint32_t i) { return ring[(head + i) % ring.size()]; }
    [[nodiscard]] const Entry& back() const { return ring[(head + size - 1) % ring.size()]; }
  };
  /// How long the tasks of one (chunk, pass) took so far; a whole backward is a pass of its own.
  struct Average {
    Duration mean{0};
    std::uint32_t count = 0;
  };

  [[nodiscard]] Queue& queue(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const Queue& queue(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] Average& average(const Done& done);
  void enqueue(const Launch& launch, Entry& entry, cudaStream_t stream);
  [[nodiscard]] bool ended(Entry& entry);
  void take(Queue& lane, Done& done);
  void note_times(Queue& lane, Entry& entry, Time now);
  void expect_ends(Queue& lane, Time from);
  void look_for_errors();
  void look_for_errors(Queue& lane);
  void fail(const std::string& cause);
  void fail_all(const std::string& cause);
  void wait_for_device(Queue& lane, Time deadline);
  [[noreturn]] void abandon(const Task& task) const;

  const Clock& clock_;
  StageTasks tasks_;
  std::uint32_t slots_;
  TaskCode& code_;
  Options options_;
  DeviceInfo device_;
  CompletionBoard board_;
  std::array<Queue, kLanes> lanes_;
  std::vector<Average> averages_;
  std::uint32_t outstanding_ = 0;
  /// When the device is next asked whether it failed.
  Time next_look_{};
  std::string failure_;
};

}  // namespace sluice::cuda
