#include "sluice/dispatcher.hpp"

#include <benchmark/benchmark.h>

#include <chrono>

#include "null_seams.hpp"
#include "scale.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/recorder.hpp"

namespace sluice::microbench {
namespace {

struct Method {
  const char* hint;
  bool split;
  std::uint32_t chunks_per_stage;
  /// 0: as many as there are microbatches.
  std::uint32_t limit;
  bool record = false;
  /// Records events, with the time of a real clock.
  bool events = false;
};

/// Whole iterations of a stage in the middle of a pipeline, on a device and neighbours that take no time:
/// `ns_per_task` is one full step, from a completion in to the next launch out, with all its messages.
void dispatch(benchmark::State& state, const Method& method) {
  const auto microbatches = static_cast<Microbatch>(state.range(0));
  const Pipeline pipeline = Pipeline::interleaved(3, method.chunks_per_stage, microbatches, method.split);
  test::NullExecutor executor;
  test::NullTransport transport(pipeline, 1);
  SingleRank agreement;
  const test::StoppedClock stopped;
  const host::SteadyClock running;
  const Clock& clock = method.events ? static_cast<const Clock&>(running) : stopped;
  Recorder recorder(Recorder::room_for_iteration(pipeline, 1));
  DispatcherConfig config;
  config.rank = config.stage = 1;
  config.limit = method.limit == 0 ? microbatches * method.chunks_per_stage : method.limit;
  config.record_decisions = method.record;
  if (method.events) config.recorder = &recorder;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named(method.hint, pipeline, 1)),
                        {executor, transport, agreement, clock});
  Iteration iteration;
  std::chrono::nanoseconds spent{0};
  for (auto _ : state) {
    dispatcher.log().clear();
    dispatcher.begin(iteration);
    transport.begin(iteration.index++);
    const auto started = std::chrono::steady_clock::now();
    while (!dispatcher.finished()) dispatcher.progress();
    const auto took = std::chrono::steady_clock::now() - started;
    spent += took;
    state.SetIterationTime(std::chrono::duration<double>(took).count());
  }
  const double tasks =
      static_cast<double>(state.iterations()) * dispatcher.tasks().size() * (method.split ? 3 : 2);
  state.SetItemsProcessed(static_cast<std::int64_t>(tasks));
  state.counters["ns_per_task"] = static_cast<double>(spent.count()) / tasks;
}

BENCHMARK_CAPTURE(dispatch, bf, Method{"bf", false, 1, 32})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_unlimited, Method{"bf", false, 1, 0})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_recorded, Method{"bf", false, 1, 32, true})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_events, Method{"bf", false, 1, 32, false, true})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, f_priority_unlimited, Method{"f-priority", false, 1, 0})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bfw, Method{"bfw", true, 1, 32})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_two_chunks, Method{"bf", false, 2, 32})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bfw_two_chunks, Method{"bfw", true, 2, 32})
    ->Apply(for_each_scale)
    ->UseManualTime();

}  // namespace
}  // namespace sluice::microbench
