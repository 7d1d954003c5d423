#pragma once

#include <cstdint>

#include "sluice/nvtx/domain.hpp"

namespace sluice::nvtx {

/// Tells profilers which iterations of a run to capture: the first to the last one, both included.
///
/// It opens the process-wide range `profile` of the domain, and calls cudaProfilerStart and cudaProfilerStop
/// where a CUDA runtime library is loaded into the process.
class ProfileRange {
 public:
  /// @param domain outlives the range
  ProfileRange(const Domain& domain, std::uint64_t first, std::uint64_t last);
  /// Closes the range if the run ended early.
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

  /// Around each iteration of the run, on one thread.
  void begins(std::uint64_t iteration);
  void ended(std::uint64_t iteration);

 private:
  void close();

  const Domain& domain_;
  std::uint64_t first_;
  std::uint64_t last_;
  /// The string `profile`, registered.
  void* message_;
  bool open_ = false;
  std::uint64_t range_ = 0;
};

}  // namespace sluice::nvtx
