#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/captured_task.hpp"
#include "sluice/host/stage.hpp"
#include "task_memory.hpp"

namespace sluice::graphs {

/// What a task works on when it is rehearsed, and where.
struct RehearsedTask {
  CaptureKey key;
  Lane lane = Lane::Compute;
  cuda::Stage& code;
  cuda::TaskBuffers buffers;
  cuda::SlotMemory& memory;
  cudaStream_t stream = nullptr;
  std::uint32_t rank = 0;
  Microbatch microbatches = 1;
};

/// Runs a task outside a training run, as often as wanted: what it changes is put back before each run, and
/// its stage's state at the end.
class Rehearsal {
 public:
  /// Gives what the pass reads values of our own if `fill`, and what it writes none.
  /// @throws CudaError
  Rehearsal(const RehearsedTask& task, bool fill);
  /// Puts the state back; after a whole backward and a weight gradient, all of the slot.
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  /// Runs it call by call, and waits.
  void warm_up() const;
  /// Everything is as before a task's launch.
  void prepare() const;

  /// Compares a replay with runs call by call, of another microbatch, iteration and contents of the temporary
  /// memory than those of the capture.
  /// @param replay puts the captured work on the stream
  /// @param tolerance as in GraphCache::Options
  /// @throws Error saying what differs and by how much; CudaError
  [[nodiscard]] Verification verify(const std::function<void()>& replay, double tolerance) const;

 private:
  void fill_inputs() const;
  void forget_outputs() const;
  /// Restores, prepares, runs `work` and waits for it.
  void run(const host::TaskContext& context, int temporary_byte, const std::function<void()>& work) const;
  void fill_temporaries(int own_byte) const;
  /// Of other lanes than the task's.
  void expect_temporaries_untouched() const;
  void run_pass() const;
  /// Another microbatch than the captured one, as long as its shapes are the same.
  [[nodiscard]] host::TaskContext other_context() const;

  RehearsedTask task_;
  host::TaskContext context_;
  TaskMemory changed_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace sluice::graphs
