#include "sluice/cuda/cuda_executor.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>

#include "cuda/ended_code.hpp"
#include "null_seams.hpp"
#include "scale.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

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
/// without work: `ns_per_task` is what the dispatcher and the executor do for a task, from a completion in to
/// the next launch out, without what the runtime takes to launch it; `cpu_ns_per_task` is the same in
/// processor time, which says more where the machine has other things to do.
void dispatch(benchmark::State& state, const Method& method) {
  const Pipeline pipeline = Pipeline::chain(3, static_cast<Microbatch>(state.range(0)), method.split);
  DispatcherConfig config;
  config.rank = config.stage = 1;
  const host::SteadyClock clock;
  test::EndedCode code;
  cuda::CudaExecutor::Options options;
  options.depth = method.depth;
  options.lead = method.lead;
  cuda::CudaExecutor executor(clock, pipeline, 1, config.limit, code, options);
  test::NullTransport transport(pipeline, 1);
  SingleRank agreement;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named(method.hint, pipeline, 1)),
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

BENCHMARK_CAPTURE(dispatch, bf, Method{"bf", false, 1})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_ahead, Method{"bf", false, 2})->Apply(for_each_scale)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bf_lead, Method{"bf", false, 2, std::chrono::microseconds(20)})
    ->Apply(for_each_scale)
    ->UseManualTime();
BENCHMARK_CAPTURE(dispatch, bfw, Method{"bfw", true, 1})->Apply(for_each_scale)->UseManualTime();

}  // namespace
}  // namespace sluice::microbench
