#include "sluice/cuda/completion_board.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::cuda {
namespace {

constexpr int kClockReadings = 16;
constexpr Duration kLongestAnswer = std::chrono::seconds(10);

std::size_t room_for(std::uint32_t places) { return std::max<std::size_t>(places, 1); }

}  // namespace

CompletionBoard::CompletionBoard(std::uint32_t places)
    : marks_(room_for(places) * sizeof(CompletionMark), "completion marks"),
      counts_(room_for(places) * sizeof(PlaceCounts), "counting completions"),
      launches_(places) {
  for (std::uint32_t place = 0; place < room_for(places); ++place) new (mark(place)) CompletionMark;
  calibrate();
}

bool CompletionBoard::ended(std::uint32_t place) const noexcept {
  return std::atomic_ref(mark(place)->ended).load(std::memory_order_acquire) == launches_[place];
}

Time CompletionBoard::started_at(std::uint32_t place) const noexcept {
  return to_host_clock(mark(place)->started_ns);
}

Time CompletionBoard::ended_at(std::uint32_t place) const noexcept {
  return to_host_clock(mark(place)->ended_ns);
}

void CompletionBoard::between(std::uint32_t place, Time launched, Time seen) noexcept {
  to_host_clock_ns_ += std::max(Duration{0}, launched - started_at(place)).count();
  to_host_clock_ns_ -= std::max(Duration{0}, ended_at(place) - seen).count();
}

CompletionMark* CompletionBoard::mark(std::uint32_t place) const noexcept {
  return reinterpret_cast<CompletionMark*>(marks_.host()) + place;
}

CompletionBoard::DeviceSide CompletionBoard::device_side(std::uint32_t place) const noexcept {
  return {reinterpret_cast<CompletionMark*>(marks_.device()) + place,
          reinterpret_cast<PlaceCounts*>(counts_.data()) + place};
}

Time CompletionBoard::to_host_clock(std::uint64_t device_ns) const noexcept {
  return Time(static_cast<std::int64_t>(device_ns) + to_host_clock_ns_);
}

/// The device's reading lies between two of the host's; the closest two say most.
void CompletionBoard::calibrate() {
  const Stream stream = make_stream(Priority::Highest);
  check(cudaMemsetAsync(counts_.data(), 0, counts_.size(), stream.get()),
        "clearing the counts of completions");
  check(cudaStreamSynchronize(stream.get()), "clearing the counts of completions");
  const host::SteadyClock clock;
  const std::atomic_ref ended(mark(0)->ended);
  Duration closest = Duration::max();
  for (std::uint32_t reading = 1; reading <= kClockReadings; ++reading) {
    const Time before = clock.now();
    enqueue_end(0, stream.get());
    while (ended.load(std::memory_order_acquire) != reading) {
      if (clock.now() - before > kLongestAnswer)
        throw Error("the device does not run what is put on a stream");
      std::this_thread::yield();
    }
    const Time after = clock.now();
    if (after - before >= closest) continue;
    closest = after - before;
    to_host_clock_ns_ = (before + closest / 2).count() - static_cast<std::int64_t>(mark(0)->ended_ns);
  }
  check(cudaStreamSynchronize(stream.get()), "asking the device for its time");
  if (!launches_.empty()) launches_[0] = kClockReadings;
}

}  // namespace sluice::cuda
