#include "sluice/arbiter.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>

#include "scale.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::microbench {
namespace {

/// How tasks become runnable: about in microbatch order, as in a pipeline, or from anywhere, so that the
/// cache misses on the hint's tables count too.
enum class Arrival : std::uint8_t { InOrder, Anywhere };

/// One arbitration: the best runnable task is asked for and decided, and another becomes runnable.
void arbitrate(benchmark::State& state, const char* hint, bool split, Arrival arrival) {
  const auto microbatches = static_cast<Microbatch>(state.range(0));
  const Pipeline pipeline = Pipeline::chain(3, microbatches, split);
  Arbiter arbiter(StageTasks(pipeline, 1), Hint::named(hint, pipeline, 1));
  arbiter.begin();
  Scatter scatter(microbatches);
  Microbatch in_order = 0;
  const auto next = [&] {
    if (arrival == Arrival::Anywhere) return scatter.next();
    in_order = (in_order + 1) & (microbatches - 1);
    return in_order;
  };
  for (Microbatch i = 0; i < microbatches / 2; ++i) {
    const Microbatch microbatch = next();
    arbiter.insert({microbatch, 1, Pass::Forward});
    arbiter.insert({microbatch, 1, Pass::Backward});
    if (split) arbiter.insert({microbatch, 1, Pass::WeightGrad});
  }
  for (auto _ : state) {
    const std::optional<Task> task = arbiter.candidate();
    arbiter.decided(*task);
    arbiter.insert({next(), 1, task->pass});
    benchmark::DoNotOptimize(task);
  }
}
BENCHMARK_CAPTURE(arbitrate, bf, "bf", false, Arrival::InOrder)->Apply(for_each_scale);
BENCHMARK_CAPTURE(arbitrate, b_priority, "b-priority", false, Arrival::InOrder)->Apply(for_each_scale);
BENCHMARK_CAPTURE(arbitrate, bfw, "bfw", true, Arrival::InOrder)->Apply(for_each_scale);
BENCHMARK_CAPTURE(arbitrate, bf_from_anywhere, "bf", false, Arrival::Anywhere)->Apply(for_each_scale);
BENCHMARK_CAPTURE(arbitrate, bfw_from_anywhere, "bfw", true, Arrival::Anywhere)->Apply(for_each_scale);

}  // namespace
}  // namespace sluice::microbench
