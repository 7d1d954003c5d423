#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "sluice/clock.hpp"

namespace sluice::process {

/// Ends the process of a failed run that does not end by itself: user code that waits in a collective for a
/// rank that is gone cannot be interrupted.
///
/// Destroyed in time, it does nothing.
class ExitGuard {
 public:
  /// @param bound how long after `arm` the process may take to end
  explicit ExitGuard(Duration bound = std::chrono::seconds(3));
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

  /// From now on the time runs: when it is over, the message is written to standard error and the process
  /// exits with code 1, without destructors. Only the first call counts. Safe from any thread.
  void arm(const std::string& message);

 private:
  void watch();

  const Duration bound_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> message_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace sluice::process
