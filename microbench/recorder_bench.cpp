#include "sluice/recorder.hpp"

#include <benchmark/benchmark.h>

namespace sluice::microbench {
namespace {

/// One event into a ring of this many, without reading a clock: a dispatcher does that once for all that one
/// progress() takes in, and `dispatch/bf_events` has it.
void record(benchmark::State& state) {
  Recorder recorder(static_cast<std::size_t>(state.range(0)));
  Microbatch microbatch = 0;
  for (auto _ : state) {
    ++microbatch;
    recorder.record(
        Event::of(EventKind::Arrived, Time{microbatch}, MessageId{1, microbatch, 2, Direction::Gradient}, 3));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

BENCHMARK(record)->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 22);

}  // namespace
}  // namespace sluice::microbench
