#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sluice::nccl::kernels {

inline constexpr std::uint32_t kWindows = 3;
inline constexpr std::uint32_t kNoTask = ~std::uint32_t{0};

/// Consecutive tasks of a class in the hint's order: a byte each, the bit of the task's pass where it is
/// runnable on every member, otherwise 0.
struct Window {
  std::uint32_t begin = 0;  ///< among all bytes
  std::uint32_t count = 0;
  std::uint32_t passes = 0;  ///< those that are looked for
};

struct Windows {
  Window of[kWindows];
};

/// The place of each window's first task, counted from the window's beginning, or kNoTask.
struct Firsts {
  std::uint32_t of[kWindows];
};

/// What the device writes for the host: the answer, then to which attempt it belongs.
struct alignas(32) Answer {
  Firsts firsts;
  std::uint64_t attempt;
};

/// The first task among every `shares`-th of a window, from the `share`-th on.
__host__ __device__ inline std::uint32_t first_of_share(const std::uint8_t* bytes, const Window& window,
                                                        std::uint32_t share, std::uint32_t shares) {
  for (std::uint32_t at = share; at < window.count; at += shares) {
    if ((bytes[window.begin + at] & window.passes) != 0) return at;
  }
  return kNoTask;
}

__host__ __device__ inline Firsts firsts_of_share(const std::uint8_t* bytes, const Windows& windows,
                                                  std::uint32_t share, std::uint32_t shares) {
  Firsts firsts{};
  for (std::uint32_t each = 0; each < kWindows; ++each)
    firsts.of[each] = first_of_share(bytes, windows.of[each], share, shares);
  return firsts;
}

/// What two shares have found together.
struct Earlier {
  __host__ __device__ Firsts operator()(const Firsts& a, const Firsts& b) const {
    Firsts firsts{};
    for (std::uint32_t each = 0; each < kWindows; ++each)
      firsts.of[each] = a.of[each] < b.of[each] ? a.of[each] : b.of[each];
    return firsts;
  }
};

}  // namespace sluice::nccl::kernels
