#pragma once

#include <array>
#include <cstddef>

#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"

namespace sluice::test {

/// Takes numbers on a long way: each along a branch of its own, forked from a stream and joined again, of
/// kernels that leave it as it is. What reads the end of the way before the branches are joined, or writes to
/// it too early, gets another number.
class ScalarBranches {
 public:
  static constexpr std::size_t kBranches = 3;
  /// Kernels of a branch.
  static constexpr std::size_t kSteps = 6;
  /// Of the temporary memory that it uses.
  static constexpr std::size_t kBytes = kBranches * kSteps * sizeof(double);

  using Numbers = std::array<const double*, kBranches>;

  /// On the calling thread's device.
  ScalarBranches();

  /// @param temporary of kBytes
  /// @return the same numbers, in the temporary memory
  Numbers enqueue(const Numbers& numbers, double* temporary, cudaStream_t stream) const;

 private:
  std::array<cuda::Stream, kBranches - 1> branches_;
  cuda::Event forked_;
  std::array<cuda::Event, kBranches - 1> joined_;
  cuda::DeviceMemory one_{sizeof(double), "the number one"};
};

}  // namespace sluice::test
