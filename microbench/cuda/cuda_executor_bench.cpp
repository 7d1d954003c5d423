#include "sluice/cuda/cuda_executor.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>

#include "cuda/ended_code.hpp"
#include "ended_graphs.hpp"
#include "null_seams.hpp"
#include "scale.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

constexpr StageId kMiddle = 1;

struct Method {
  const char* hint;
  bool split;
  std::uint32_t depth;
  Duration lead = Duration::max();
};

/// Processor time of this thread.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Whole iterations of a stage in the middle of a pipeline, with neighbours that take no time and tasks
/// without work: `ns_per_task` is what the dispatcher, the executor and the code do for a task, from a
/// completion in to the next launch out, without what the runtime takes to launch it; `cpu_ns_per_task` is
/// the same in processor time, which says more where the machine has other things to do.
void measure(benchmark::State& state, const Pipeline& pipeline, cuda::CudaExecutor& executor,
             const DispatcherConfig& config, const Method& method) {
  const host::SteadyClock clock;
  test::NullTransport transport(pipeline, kMiddle);
  SingleRank agreement;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named(method.hint, pipeline, kMiddle)),
                        {executor, transport, agreement, clock});
  Iteration iteration;
  std::chrono::nanoseconds spent{0};
  std::chrono::nanoseconds computed{0};
  for (auto _ : state) {
    dispatcher.begin(iteration);
    transport.begin(iteration.index++);
    const auto computing = processor_time();
    const auto started = std::chrono::steady_clock::now();
    while (!dispatcher.finished()) dispatcher.progress();
    const auto took = std::chrono::steady_clock::now() - started;
    computed += processor_time() - computing;
    spent += took;
    state.SetIterationTime(std::chrono::duration<double>(took).count());
  }
  const double tasks =
      static_cast<double>(state.iterations()) * dispatcher.tasks().size() * (method.split ? 3 : 2);
  state.SetItemsProcessed(static_cast<std::int64_t>(tasks));
  state.counters["ns_per_task"] = static_cast<double>(spent.count()) / tasks;
  state.counters["cpu_ns_per_task"] = static_cast<double>(computed.count()) / tasks;
}

DispatcherConfig config_of_middle() {
  DispatcherConfig config;
  config.rank = config.stage = kMiddle;
  return config;
}

Pipeline pipeline_of(const benchmark::State& state, const Method& method) {
  return Pipeline::chain(3, static_cast<Microbatch>(state.range(0)), method.split);
}

cuda::CudaExecutor::Options options_of(const Method& method) {
  cuda::CudaExecutor::Options options;
  options.depth = method.depth;
  options.lead = method.lead;
  return options;
}

/// Without the code of the tasks.
void dispatch(benchmark::State& state, const Method& method) {
  const Pipeline pipeline = pipeline_of(state, method);
  const DispatcherConfig config = config_of_middle();
  const host::SteadyClock clock;
  test::EndedCode code;
  cuda::CudaExecutor executor(clock, pipeline, kMiddle, config.limit, code, options_of(method));
  measure(state, pipeline, executor, config, method);
}

/// With the cache of captured graphs, of which one belongs to each pass and slot.
void dispatch_graphs(benchmark::State& state, const Method& method) {
  cuda::use_device(0);
  const Pipeline pipeline = pipeline_of(state, method);
  const DispatcherConfig config = config_of_middle();
  const host::SteadyClock clock;
  test::EndedGraphs code(pipeline, kMiddle, config.limit);
  cuda::CudaExecutor executor(clock, pipeline, kMiddle, config.limit, code, options_of(method));
  code.capture(executor.board(), [&](const Launch& launch) { return executor.place_of(launch); });
  measure(state, pipeline, executor, config, method);
  if (code.statistics().eager > 0) state.SkipWithError("tasks ran call by call");
}

BENCHMARK_CAPTURE(dispatch, bf, Method{"bf", false, 1})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_ahead, Method{"bf", false, 2})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_lead, Method{"bf", false, 2, std::chrono::microseconds(20)})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bfw, Method{"bfw", true, 1})->Apply(for_each_scale)->UseManualTime();

BENCHMARK_CAPTURE(dispatch_graphs, bf, Method{"bf", false, 1})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch_graphs, bf_ahead, Method{"bf", false, 2})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch_graphs, bfw, Method{"bfw", true, 1})->Apply(for_each_scale)->UseManualTime();

}  // namespace
}  // namespace sluice::microbench
