#include <chrono>
#include <vector>

#include "gpu/device_work.hpp"
#include "gpu/subjects.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"

namespace sluice::microbench {
namespace {

constexpr auto kTask = std::chrono::microseconds(50);
constexpr std::uint32_t kPlace = 1;
constexpr auto kRunning = std::chrono::milliseconds(20);
constexpr std::uint32_t kLooksAtOnce = 100;

bool event_reached(cudaEvent_t event) {
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) return false;
  cuda::check(code, "asking whether an event was reached");
  return true;
}

/// What one look takes while the task runs, in ns; batches that its end disturbed are left out.
template <typename Look>
std::vector<double> time_looks(DeviceWork& work, cudaEvent_t event, std::uint32_t batches, const Look& look) {
  std::vector<double> ns;
  while (ns.size() < batches) {
    work.launch(kPlace, kRunning);
    cuda::check(cudaEventRecord(event, work.stream()), "recording an event");
    while (ns.size() < batches && !look()) {
      const Time before = work.now();
      std::uint32_t seen = 0;
      for (std::uint32_t i = 0; i < kLooksAtOnce; ++i) seen += look() ? 1 : 0;
      const Time after = work.now();
      if (seen == 0) ns.push_back(static_cast<double>((after - before).count()) / kLooksAtOnce);
    }
    work.wait_for_flag(kPlace);
  }
  return ns;
}

/// From the launch of an empty task to its end seen, in us.
template <typename Look>
std::vector<double> time_empty_tasks(DeviceWork& work, cudaEvent_t event, std::uint32_t times,
                                     const Look& look) {
  std::vector<double> us;
  while (us.size() < times) {
    const Time before = work.now();
    work.launch(kPlace, Duration{0});
    if (event != nullptr) cuda::check(cudaEventRecord(event, work.stream()), "recording an event");
    work.wait_until(look);
    us.push_back(microseconds(work.now() - before));
    work.wait_for_flag(kPlace);
  }
  return us;
}

/// How much later than its flag a task's event is seen, in us, by who looks at both in turn; negative if
/// sooner.
std::vector<double> time_after_flag(DeviceWork& work, cudaEvent_t event, std::uint32_t times) {
  std::vector<double> us;
  while (us.size() < times) {
    work.launch(kPlace, kTask);
    cuda::check(cudaEventRecord(event, work.stream()), "recording an event");
    Time by_flag = kNever;
    work.wait_until([&] {
      if (by_flag == kNever && work.board().ended(kPlace)) by_flag = work.now();
      return event_reached(event);
    });
    const Time by_event = work.now();
    work.wait_for_flag(kPlace);
    if (by_flag == kNever) by_flag = work.now();
    us.push_back(microseconds(by_event - by_flag));
  }
  return us;
}

}  // namespace

std::vector<Row> measure_completion(const Effort& effort) {
  DeviceWork work;
  const cuda::Event made = cuda::make_event();
  cudaEvent_t event = made.get();
  const auto by_flag = [&] { return work.board().ended(kPlace); };
  const auto by_event = [&] { return event_reached(event); };
  const std::uint32_t batches = effort.times(1000, 5);
  const std::uint32_t times = effort.times(2000, 20);
  return {
      median_row("one look at the flag of a running task", "ns", time_looks(work, event, batches, by_flag)),
      median_row("one query of the event of a running task", "ns",
                 time_looks(work, event, batches, by_event)),
      median_row("empty task, launch to end seen by flag", "us",
                 time_empty_tasks(work, nullptr, times, by_flag)),
      median_row("empty task, launch to end seen by event", "us",
                 time_empty_tasks(work, event, times, by_event)),
      median_row("event seen after the flag of its task", "us", time_after_flag(work, event, times))};
}

}  // namespace sluice::microbench
