#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::microbench {

struct Latency {
  double median_us = 0;
  double p99_us = 0;
};

/// Half the time that a message and its answer take, each offered, accepted and arrived.
/// @param bytes of payload; 0 for messages without tensors
[[nodiscard]] Latency measure_latency(std::size_t bytes, std::uint32_t turns);

/// Payload that arrives, in MB/s (1e6), with so many messages under way.
[[nodiscard]] double measure_bandwidth(std::size_t bytes, std::uint32_t window, std::uint32_t messages);

enum class Waiting { Polls, Sleeps };

/// From the call of `send` in one process to that of `launch` by a dispatcher in the other one.
/// @param bytes of payload; 0 for messages without tensors
[[nodiscard]] Latency measure_launch(Waiting waiting, std::size_t bytes, std::uint32_t messages);

/// What of that the system takes: from the write to an event descriptor in one process to the return of poll
/// in the other one.
[[nodiscard]] Latency measure_bare_wake(std::uint32_t wakes);

struct HandOvers {
  std::uint64_t tasks = 0;
  /// Sleeps of the ranks' threads.
  std::uint64_t sleeps = 0;
  /// Launches made by the progress() that followed a sleep.
  std::uint64_t launches_after_sleep = 0;
};

/// Two ranks, each a process with a dispatcher and a worker thread, whose tasks compute for so long.
[[nodiscard]] HandOvers measure_hand_overs(double task_us, std::uint32_t microbatches);

/// `ucx_perftest -t ucp_am_lat` as two processes on the same cores: median of half the round trip. Not a
/// number if it cannot be run.
/// @param rendezvous by rendezvous only (UCX_RNDV_THRESH=0)
[[nodiscard]] double perftest_latency(std::size_t bytes, bool rendezvous, std::uint32_t turns);
/// `ucp_am_bw` by rendezvous only, in MB/s (1e6).
[[nodiscard]] double perftest_bandwidth(std::size_t bytes, std::uint32_t window, std::uint32_t messages);

}  // namespace sluice::microbench
