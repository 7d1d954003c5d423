#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace sluice::microbench {

/// Runs a benchmark for each number of microbatches.
inline void for_each_scale(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t microbatches : {64, 512, 4096, 32768, 65536}) benchmark->Arg(microbatches);
}

/// Numbers below a power of two, each once before any comes again, far from one another.
class Scatter {
 public:
  explicit Scatter(std::uint32_t count) : mask_(count - 1) {}

  std::uint32_t next() noexcept {
    at_ = (at_ + kStride) & mask_;
    return at_;
  }

 private:
  static constexpr std::uint32_t kStride = 40503;

  std::uint32_t mask_;
  std::uint32_t at_ = 0;
};

}  // namespace sluice::microbench
