#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpu/subjects.hpp"
#include "null_seams.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/emulated_code.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

constexpr Goal kWithoutLaunchAhead{3};
constexpr Goal kWithLaunchAhead{1};
constexpr std::size_t kWarmUp = 20;
constexpr StageId kStage = 1;
constexpr auto kTask = std::chrono::microseconds(50);
constexpr auto kLongest = std::chrono::seconds(20);

/// When a task ran, by the device's clock.
struct Interval {
  std::uint64_t started_ns = 0;
  std::uint64_t ended_ns = 0;
};

/// Notes of every task what its kernel wrote of itself, before anything else runs at its place.
class NotingExecutor final : public Executor {
 public:
  NotingExecutor(cuda::CudaExecutor& device, std::vector<Interval>& noted) : device_(device), noted_(noted) {}

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return device_.room(lane); }
  void launch(const Launch& launch) override { device_.launch(launch); }
  bool poll(Done& done) override {
    if (!device_.poll(done)) return false;
    const Launch launch{done.task, 0, done.slot, Lane::Compute, done.whole};
    const cuda::CompletionMark& mark = *device_.board().mark(device_.place_of(launch));
    noted_.push_back({mark.started_ns, mark.ended_ns});
    return true;
  }
  [[nodiscard]] Time next_deadline() const override { return device_.next_deadline(); }
  [[nodiscard]] std::string failure() const override { return device_.failure(); }

 private:
  cuda::CudaExecutor& device_;
  std::vector<Interval>& noted_;
};

/// Runs a stage in the middle of a pipeline whose inputs are always there.
std::vector<Interval> run_stage(std::uint32_t depth, Microbatch microbatches) {
  const Pipeline pipeline = Pipeline::chain(3, microbatches);
  DispatcherConfig config;
  config.rank = config.stage = kStage;
  const host::SteadyClock clock;
  cuda::EmulatedCode code([](const Launch& /*launch*/) { return kTask; }, {});
  cuda::CudaExecutor::Options options;
  options.rank = kStage;
  options.depth = depth;
  cuda::CudaExecutor device(clock, pipeline, kStage, config.limit, code, options);
  std::vector<Interval> noted;
  noted.reserve(std::size_t{2} * microbatches);
  NotingExecutor executor(device, noted);
  test::NullTransport transport(pipeline, kStage);
  SingleRank agreement;
  Dispatcher dispatcher(pipeline, config, Policy::readiness(Hint::named("bf", pipeline, kStage)),
                        {executor, transport, agreement, clock});
  dispatcher.begin({0});
  transport.begin(0);
  const Time limit = clock.now() + kLongest;
  while (!dispatcher.finished()) {
    if (!dispatcher.progress() && clock.now() > limit) throw Error("the tasks of a stage do not end");
  }
  return noted;
}

/// From the last instruction of a task to the first of the next one, in us.
std::vector<double> gaps(const std::vector<Interval>& tasks) {
  std::vector<double> us;
  for (std::size_t i = std::min(kWarmUp, tasks.size() / 2); i + 1 < tasks.size(); ++i) {
    const auto ns = static_cast<std::int64_t>(tasks[i + 1].started_ns - tasks[i].ended_ns);
    us.push_back(static_cast<double>(ns) / 1000);
  }
  return us;
}

/// The smallest difference of two readings: finer than that nothing can be told.
double timer_step_ns(const std::vector<Interval>& tasks) {
  std::vector<std::uint64_t> readings;
  for (const Interval& task : tasks) {
    readings.push_back(task.started_ns);
    readings.push_back(task.ended_ns);
  }
  std::sort(readings.begin(), readings.end());
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i + 1 < readings.size(); ++i) {
    if (readings[i + 1] > readings[i]) step = std::min(step, readings[i + 1] - readings[i]);
  }
  return static_cast<double>(step);
}

}  // namespace

std::vector<Row> measure_task_gap(const Effort& effort) {
  const Microbatch microbatches = effort.times(2000, 30);
  const std::vector<Interval> one = run_stage(1, microbatches);
  const std::vector<Interval> ahead = run_stage(2, microbatches);
  Row step;
  step.name = "smallest step of the device's timer that was seen";
  step.unit = "ns";
  step.value = std::min(timer_step_ns(one), timer_step_ns(ahead));
  return {median_row("end of a task to start of the next, without launch-ahead", "us", gaps(one),
                     kWithoutLaunchAhead),
          median_row("end of a task to start of the next, with launch-ahead", "us", gaps(ahead),
                     kWithLaunchAhead),
          step};
}

}  // namespace sluice::microbench
