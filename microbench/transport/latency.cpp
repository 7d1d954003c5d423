#include <algorithm>
#include <chrono>
#include <vector>

#include "forked_ranks.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "transport/link.hpp"
#include "transport/measurements.hpp"
#include "transport/samples.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kWarmUp = 1000;
constexpr Microbatch kMicrobatches = 64;

void receive_one(Link& link) {
  while (link.receive() == 0) link.ended();
}

void answer(Link& link, std::uint32_t turns) {
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    receive_one(link);
    link.send(turn % kMicrobatches);
  }
}

void ask(Link& link, std::uint32_t turns, double* us) {
  const host::SteadyClock clock;
  Time before = clock.now();
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    link.send(turn % kMicrobatches);
    receive_one(link);
    const Time now = clock.now();
    if (us != nullptr) us[turn] = std::chrono::duration<double, std::micro>(now - before).count() / 2;
    before = now;
  }
}

}  // namespace

Latency measure_latency(std::size_t bytes, std::uint32_t turns) {
  const test::SharedMapping samples(turns * sizeof(double));
  run_pair(Cores::OneEach, [&](process::Bootstrap& bootstrap) {
    Link link(bootstrap, bytes, kMicrobatches);
    if (bootstrap.rank() == 0) {
      ask(link, kWarmUp, nullptr);
      ask(link, turns, samples.as<double>());
    } else {
      answer(link, kWarmUp + turns);
    }
  });
  return summarize({samples.as<double>(), turns});
}

double measure_bandwidth(std::size_t bytes, std::uint32_t window, std::uint32_t messages) {
  const test::SharedMapping seconds(sizeof(double));
  const std::uint32_t warm_up = 2 * window;
  run_pair(Cores::OneEach, [&](process::Bootstrap& bootstrap) {
    Link link(bootstrap, bytes, window);
    if (bootstrap.rank() == 0) {
      std::uint32_t ended = 0;
      for (std::uint32_t sent = 0; sent < warm_up + messages; ++sent) {
        while (sent - ended >= window) ended += link.ended();
        link.send(sent % window);
      }
      while (ended < warm_up + messages) ended += link.ended();
      return;
    }
    std::uint32_t arrived = 0;
    while (arrived < warm_up) arrived += link.receive();
    const std::uint32_t first = arrived;
    const auto before = std::chrono::steady_clock::now();
    while (arrived < warm_up + messages) arrived += link.receive();
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    *seconds.as<double>() = taken * messages / (warm_up + messages - first);
  });
  return static_cast<double>(bytes) * messages / *seconds.as<double>() / 1e6;
}

}  // namespace sluice::microbench
