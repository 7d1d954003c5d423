#pragma once

#include <cstdint>

#include "sluice/cuda/task_code.hpp"
#include "sluice/host/emulated_executor.hpp"

namespace sluice::cuda {

/// Keeps part of a device busy for a given time and computes nothing, so that several stages on one device
/// behave as several devices. A task is one kernel, which makes both marks of its place.
class EmulatedCode final : public TaskCode {
 public:
  struct Options {
    /// Blocks that run for the time: the multiprocessors one emulated device is given.
    std::uint32_t blocks = 1;
    /// Threads of a block; 1024 take all of most multiprocessors.
    std::uint32_t threads = 32;
  };

  /// @param task_time from the task's first instruction on the device to its last
  /// @throws ConfigError naming `blocks` or `threads`
  EmulatedCode(host::TaskTime task_time, const Options& options);

  void enqueue(const Launch& launch, std::uint32_t place, const CompletionBoard& board,
               cudaStream_t stream) override;

 private:
  host::TaskTime task_time_;
  Options options_;
};

}  // namespace sluice::cuda
