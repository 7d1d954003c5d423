#include "gpu/message_stream.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <thread>

#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

constexpr auto kLongest = std::chrono::seconds(30);
constexpr std::size_t kStretches = 10;

/// Calls `turn` until it says that all is done.
template <typename Turn>
void drive(const Turn& turn) {
  const host::SteadyClock clock;
  const Time limit = clock.now() + kLongest;
  while (!turn()) {
    if (clock.now() > limit) throw Error("the messages of a measurement do not get through");
    std::this_thread::yield();
  }
}

std::deque<Slot> all_of(std::uint32_t slots) {
  std::deque<Slot> free(slots);
  std::iota(free.begin(), free.end(), 0);
  return free;
}

Slot take(std::deque<Slot>& free) {
  const Slot slot = free.front();
  free.pop_front();
  return slot;
}

}  // namespace

void send_stream(Transport& transport, std::uint32_t messages, std::uint32_t slots) {
  std::deque<Slot> free = all_of(slots);
  std::uint32_t sent = 0;
  drive([&] {
    SendDone done;
    while (transport.poll(done)) free.push_back(done.slot);
    while (sent < messages && !free.empty()) {
      transport.send({0, static_cast<Microbatch>(sent), 0, Direction::Activation}, take(free));
      ++sent;
    }
    return sent == messages && free.size() == slots;
  });
}

std::vector<std::int64_t> receive_stream(Transport& transport, std::uint32_t messages, std::uint32_t slots) {
  const host::SteadyClock clock;
  std::deque<Slot> free = all_of(slots);
  std::deque<Offer> offers;
  std::vector<std::int64_t> arrivals;
  arrivals.reserve(messages);
  drive([&] {
    Offer offer;
    while (transport.poll(offer)) offers.push_back(offer);
    while (!offers.empty() && !free.empty()) {
      transport.accept(offers.front(), take(free));
      offers.pop_front();
    }
    Arrival arrival;
    while (transport.poll(arrival)) {
      arrivals.push_back(clock.now().count());
      free.push_back(arrival.slot);
    }
    return arrivals.size() == messages;
  });
  return arrivals;
}

std::vector<double> bandwidths(const std::vector<std::int64_t>& arrivals, std::size_t bytes) {
  const std::size_t gaps = arrivals.size() - 1;
  const std::size_t stretch = std::max<std::size_t>(1, gaps / kStretches);
  std::vector<double> gigabytes_per_s;
  for (std::size_t first = 0; first + stretch <= gaps; first += stretch) {
    const auto ns = static_cast<double>(arrivals[first + stretch] - arrivals[first]);
    gigabytes_per_s.push_back(static_cast<double>(stretch * bytes) / std::max(ns, 1.0));
  }
  return gigabytes_per_s;
}

}  // namespace sluice::microbench
