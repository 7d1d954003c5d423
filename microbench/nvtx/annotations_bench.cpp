#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "null_seams.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/nvtx/rank_annotations.hpp"

namespace sluice::microbench {
namespace {

constexpr Microbatch kMicrobatches = 256;

/// A tool is attached where NVTX_INJECTION64_PATH names one, for all of the process.
const char* attached() {
  return std::getenv("NVTX_INJECTION64_PATH") == nullptr ? "no tool" : "tool attached";
}

/// Of this thread alone, so that what else the machine does counts for little.
std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// What the annotations of one task cost: a wait, an arrival, a decision and the task's range.
void annotate_task(benchmark::State& state) {
  const Pipeline pipeline = Pipeline::chain(3, kMicrobatches);
  const nvtx::Domain domain;
  const auto rank = nvtx::annotate_rank(domain, pipeline, 1, {"rank 1 (stage 1)", "bf"});
  rank->began({});
  Microbatch microbatch = 0;
  for (auto _ : state) {
    microbatch = (microbatch + 1) % kMicrobatches;
    rank->waits(WaitFor::Message);
    rank->arrived({{0, microbatch, 0, Direction::Activation}, 3});
    Decision decision;
    decision.task = {microbatch, 1, Pass::Forward};
    decision.slot = 3;
    decision.runnable = {2, 1, 0};
    rank->launching(decision);
    Done done;
    done.task = decision.task;
    rank->finished(done);
  }
  rank->ended({});
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
  state.SetLabel(attached());
}
BENCHMARK(annotate_task);

/// Whole iterations of a stage as in `dispatch/bf` of sluice_bench, but on a real clock: what one task costs
/// a dispatcher, all its messages included.
void dispatch(benchmark::State& state, bool annotated) {
  const Pipeline pipeline = Pipeline::chain(3, kMicrobatches);
  test::NullExecutor executor;
  test::NullTransport transport(pipeline, 1);
  SingleRank agreement;
  const host::SteadyClock clock;
  const nvtx::Domain domain;
  const auto annotations = nvtx::annotate_rank(domain, pipeline, 1, {"rank 1 (stage 1)", "bf"});
  DispatcherConfig config;
  config.rank = config.stage = 1;
  if (annotated) config.observer = annotations.get();
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bf", pipeline, 1)),
                        {executor, transport, agreement, clock});
  Iteration iteration;
  std::chrono::nanoseconds spent{0};
  for (auto _ : state) {
    dispatcher.begin(iteration);
    transport.begin(iteration.index++);
    const std::chrono::nanoseconds started = thread_time();
    while (!dispatcher.finished()) dispatcher.progress();
    const std::chrono::nanoseconds took = thread_time() - started;
    spent += took;
    state.SetIterationTime(std::chrono::duration<double>(took).count());
  }
  const double tasks = static_cast<double>(state.iterations()) * 2 * kMicrobatches;
  state.SetItemsProcessed(static_cast<std::int64_t>(tasks));
  state.counters["ns_per_task"] = static_cast<double>(spent.count()) / tasks;
  state.SetLabel(annotated ? attached() : "no observer");
}
BENCHMARK_CAPTURE(dispatch, off, false)->UseManualTime();
BENCHMARK_CAPTURE(dispatch, on, true)->UseManualTime();

}  // namespace
}  // namespace sluice::microbench
