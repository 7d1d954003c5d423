#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

extern "C" {

/// A kernel's host stand-in. The arguments are copies made at the launch.
using fakecuda_kernel_function = void (*)(dim3 grid, dim3 block, std::size_t shared_bytes, void** arguments,
                                          void* context);

/// @param name the beginning of the kernel's demangled name (`argmin<`, `sluice::cuda::spin(`), with or
/// without
///        its namespace, or its whole mangled name
/// @param sizes of its arguments in bytes
void fakecuda_register_kernel(const char* name, const std::size_t* sizes, std::size_t count,
                              fakecuda_kernel_function function, void* context);

/// Where the fake keeps what a device address names; null for any other address.
void* fakecuda_host(const void* device_address);
}

namespace fakecuda {

/// An argument as the stand-in gets it: device addresses become ones it can use.
template <typename T>
[[nodiscard]] T argument(const void* stored) {
  T value;
  std::memcpy(&value, stored, sizeof value);
  if constexpr (std::is_pointer_v<T>) {
    if (void* host = fakecuda_host(reinterpret_cast<const void*>(value))) value = static_cast<T>(host);
  }
  return value;
}

/// Registers a kernel's stand-in, which does all of the grid's work in one call:
///
///     fakecuda::kernel("argmin<", +[](dim3 grid, dim3 block, const float* x, int n, int* out) { ... });
///
/// Pointers inside structures passed by value are not translated: see `fakecuda_host`.
template <typename... Arguments>
bool kernel(const char* name, void (*stand_in)(dim3, dim3, Arguments...)) {
  static constexpr std::size_t kSizes[sizeof...(Arguments) + 1] = {sizeof(Arguments)..., 0};
  const auto call = [](dim3 grid, dim3 block, std::size_t, void** arguments, void* context) {
    const auto function = reinterpret_cast<void (*)(dim3, dim3, Arguments...)>(context);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      function(grid, block, argument<Arguments>(arguments[I])...);
    }
    (std::index_sequence_for<Arguments...>{});
  };
  fakecuda_register_kernel(name, kSizes, sizeof...(Arguments), call, reinterpret_cast<void*>(stand_in));
  return true;
}

}  // namespace fakecuda
