#include "sluice/cuda/cuda_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

/// A whole backward is timed apart from a split one.
constexpr std::uint32_t kTimedPasses = kPasses + 1;
/// Old times count for less: after so many a new one weighs no less than this part.
constexpr std::uint32_t kAveraged = 64;
constexpr Duration kLook = std::chrono::microseconds(100);

CudaExecutor::Options checked(const CudaExecutor::Options& options) {
  if (options.depth == 0) throw ConfigError("launch-ahead", "an executor holds at least one task");
  return options;
}

/// What goes over the wires to other ranks is waited for there.
Priority priority_of(Lane lane) { return lane == Lane::Reduction ? Priority::Highest : Priority::Lowest; }

void make_current(int device) {
  int current = -1;
  check(cudaGetDevice(&current), "asking for the thread's device");
  if (current != device) check(cudaSetDevice(device), "choosing the thread's device");
}

}  // namespace

CudaExecutor::CudaExecutor(const Clock& clock, const Pipeline& pipeline, StageId stage, std::uint32_t slots,
                           TaskCode& code, const Options& options)
    : clock_(clock),
      tasks_(pipeline, stage),
      slots_(slots),
      code_(code),
      options_(checked(options)),
      device_(use_device(options.device)),
      board_(places(pipeline, stage, slots)),
      averages_(std::size_t{tasks_.chunks()} * kTimedPasses) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    lanes_[lane].stream = make_stream(priority_of(static_cast<Lane>(lane)));
    lanes_[lane].ring.resize(options_.depth);
    if (options_.completion == Completion::Flags) continue;
    for (Entry& entry : lanes_[lane].ring) entry.ended = make_event();
  }
}

CudaExecutor::~CudaExecutor() {
  const Time deadline = clock_.now() + options_.grace;
  for (Queue& lane : lanes_) wait_for_device(lane, deadline);
}

void CudaExecutor::wait_for_device(Queue& lane, Time deadline) {
  const RelaxedCaptureMode relaxed;
  while (cudaStreamQuery(lane.stream.get()) == cudaErrorNotReady) {
    if (clock_.now() >= deadline) abandon(lane.size > 0 ? lane.at(0).done.task : Task{});
    std::this_thread::sleep_for(kLook);
  }
}

void CudaExecutor::abandon(const Task& task) const {
  const auto seconds = std::chrono::duration<double>(options_.grace).count();
  fmt::print(stderr,
             "sluice: rank {}, {}: has not ended on device {} for {} s although the run is over; aborting\n",
             options_.rank, to_string(task), options_.device, seconds);
  std::abort();
}

std::uint32_t CudaExecutor::places(const Pipeline& pipeline, StageId stage, std::uint32_t slots) {
  return static_cast<std::uint32_t>(pipeline.chunks_of(stage).size() * kPasses * slots);
}

std::uint32_t CudaExecutor::place_of(const Launch& launch) const {
  const auto pass = static_cast<std::uint32_t>(launch.task.pass);
  return (tasks_.position(launch.task.chunk) * static_cast<std::uint32_t>(kPasses) + pass) * slots_ +
         launch.slot;
}

std::uint32_t CudaExecutor::room(Lane lane) const {
  const Queue& launched = queue(lane);
  const bool early = options_.lead != Duration::max() && launched.size > 0 &&
                     launched.back().expected_end - clock_.now() > options_.lead;
  return early ? 0 : options_.depth - launched.size;
}

void CudaExecutor::launch(const Launch& launch) {
  Queue& lane = queue(launch.lane);
  Entry& entry = lane.at(lane.size);
  entry.done = {launch.task, launch.slot, {}, {}, Status::Ok, launch.whole};
  entry.launched = clock_.now();
  const Time starts = lane.size == 0 ? entry.launched : std::max(entry.launched, lane.back().expected_end);
  entry.expected_end = starts + average(entry.done).mean;
  // After a failure nothing runs any more, and its cause stays: the rank may be reading it.
  entry.failed = !failure_.empty();
  if (!entry.failed) enqueue(launch, entry, lane.stream.get());
  ++lane.size;
  if (++outstanding_ == 1) next_look_ = entry.launched + options_.error_interval;
}

void CudaExecutor::enqueue(const Launch& launch, Entry& entry, cudaStream_t stream) {
  const auto failed = [&](const char* cause) {
    entry.failed = true;
    fail(fmt::format("launching {}: {}", to_string(launch.task),
                     *cause == '\0' ? "an exception without a text" : cause));
  };
  try {
    if (launch.slot >= slots_)
      throw Error(fmt::format("slot {} is not one of the stage's {}", launch.slot, slots_));
    make_current(options_.device);
    entry.place = place_of(launch);
    code_.enqueue(launch, entry.place, board_, stream);
    board_.launched(entry.place);
    if (entry.ended) check(cudaEventRecord(entry.ended.get(), stream), "recording the end of a task");
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
}

bool CudaExecutor::poll(Done& done) {
  if (outstanding_ == 0) return false;
  for (Queue& lane : lanes_) {
    if (lane.size == 0 || !ended(lane.at(0))) continue;
    take(lane, done);
    return true;
  }
  look_for_errors();
  return false;
}

bool CudaExecutor::ended(Entry& entry) {
  if (entry.failed) return true;
  if (!entry.ended) return board_.ended(entry.place);
  const RelaxedCaptureMode relaxed;
  const cudaError_t code = cudaEventQuery(entry.ended.get());
  if (code == cudaErrorNotReady) return false;
  if (code != cudaSuccess) {
    fail_all(
        CudaError(code, fmt::format("running {} on device {}", to_string(entry.done.task), options_.device))
            .what());
  }
  return true;
}

void CudaExecutor::take(Queue& lane, Done& done) {
  Entry& entry = lane.at(0);
  const Time now = clock_.now();
  if (entry.failed) {
    entry.done.status = Status::Failed;
    entry.done.started = entry.launched;
    entry.done.ended = now;
  } else {
    note_times(lane, entry, now);
  }
  done = entry.done;
  lane.head = (lane.head + 1) % options_.depth;
  --lane.size;
  --outstanding_;
  next_look_ = now + options_.error_interval;
  expect_ends(lane, done.ended);
}

void CudaExecutor::note_times(Queue& lane, Entry& entry, Time now) {
  // With events its code may have marked nothing.
  const bool marked = board_.ended(entry.place);
  if (marked) board_.between(entry.place, entry.launched, now);
  const Time started = marked ? board_.started_at(entry.place) : entry.launched;
  entry.done.started = std::max(started, lane.last_ended);
  entry.done.ended = std::max(marked ? board_.ended_at(entry.place) : now, entry.done.started);
  lane.last_ended = entry.done.ended;
  Average& average = this->average(entry.done);
  average.count = std::min(average.count + 1, kAveraged);
  average.mean += (entry.done.ended - entry.done.started - average.mean) / average.count;
}

void CudaExecutor::expect_ends(Queue& lane, Time from) {
  for (std::uint32_t i = 0; i < lane.size; ++i) {
    Entry& entry = lane.at(i);
    entry.expected_end = std::max(from, entry.launched) + average(entry.done).mean;
    from = entry.expected_end;
  }
}

CudaExecutor::Average& CudaExecutor::average(const Done& done) {
  const std::uint32_t pass = done.whole ? kTimedPasses - 1 : static_cast<std::uint32_t>(done.task.pass);
  return averages_[tasks_.position(done.task.chunk) * kTimedPasses + pass];
}

void CudaExecutor::look_for_errors() {
  const Time now = clock_.now();
  if (now < next_look_) return;
  next_look_ = now + options_.error_interval;
  for (Queue& lane : lanes_) {
    if (lane.size > 0) look_for_errors(lane);
  }
}

void CudaExecutor::look_for_errors(Queue& lane) {
  const RelaxedCaptureMode relaxed;
  const cudaError_t code = cudaStreamQuery(lane.stream.get());
  Entry& entry = lane.at(0);
  if (code == cudaErrorNotReady || (code == cudaSuccess && ended(entry))) return;
  const std::string running =
      fmt::format("running {} on device {}", to_string(entry.done.task), options_.device);
  if (code == cudaSuccess)
    return fail_all(running + ": its work is done, but its code has not marked the end");
  fail_all(CudaError(code, running).what());
}

void CudaExecutor::fail(const std::string& cause) {
  // Of this thread's last call, and told: what comes next must not find it again.
  static_cast<void>(cudaGetLastError());
  if (failure_.empty()) failure_ = cause;
}

/// The device is lost, and what is on it with it.
void CudaExecutor::fail_all(const std::string& cause) {
  fail(cause);
  for (Queue& lane : lanes_) {
    for (std::uint32_t i = 0; i < lane.size; ++i) lane.at(i).failed = true;
  }
}

Time CudaExecutor::next_deadline() const { return outstanding_ == 0 ? kNever : kAnyTime; }

}  // namespace sluice::cuda
