#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>

namespace sluice::gpt {

/// A random generator of LibTorch that nothing else draws from.
[[nodiscard]] inline at::Generator generator_of(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

}  // namespace sluice::gpt
