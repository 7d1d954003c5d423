#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::tools {

/// One line on standard error that shows how far a run is: redrawn in place on a terminal, printed
/// now and then elsewhere.
class ProgressBar {
 public:
  /// @param shown false where another process shows it
  ProgressBar(std::string what, std::uint64_t total, bool shown = true);
  /// Leaves a terminal at the start of a line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// @param done so far
  void show(std::uint64_t done, const std::string& status);

 private:
  std::string what_;
  std::uint64_t total_;
  bool shown_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sluice::tools
