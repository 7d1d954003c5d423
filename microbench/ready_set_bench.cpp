#include "sluice/ready_set.hpp"

#include <benchmark/benchmark.h>

#include "scale.hpp"

namespace sluice::microbench {
namespace {

/// A set of that many members in which one comes and the first one goes.
void insert_first_erase(benchmark::State& state) {
  const auto members = static_cast<std::uint32_t>(state.range(0));
  ReadySet set(members);
  Scatter scatter(members);
  for (std::uint32_t i = 0; i < members / 2; ++i) set.insert(scatter.next());
  for (auto _ : state) {
    set.insert(scatter.next());
    const std::uint32_t first = set.first();
    set.erase(first);
    benchmark::DoNotOptimize(first);
  }
}
BENCHMARK(insert_first_erase)->Apply(for_each_scale);

/// The same in an empty set, where every level changes.
void insert_first_erase_alone(benchmark::State& state) {
  const auto capacity = static_cast<std::uint32_t>(state.range(0));
  ReadySet set(capacity);
  Scatter scatter(capacity);
  for (auto _ : state) {
    set.insert(scatter.next());
    const std::uint32_t first = set.first();
    set.erase(first);
    benchmark::DoNotOptimize(first);
  }
}
BENCHMARK(insert_first_erase_alone)->Apply(for_each_scale);

}  // namespace
}  // namespace sluice::microbench
