#include <algorithm>
#include <cmath>

#include "sluice/host/draws.hpp"
#include "sluice/sim/scenario.hpp"

namespace sluice::sim {
namespace {

/// Keep these draws apart from those of other models under the same seed.
constexpr std::uint64_t kSizes = 0x73696d2d73697a65;
constexpr std::uint64_t kSkew = 0x73696d2d736b6577;
constexpr std::uint64_t kReplica = 0x73696d2d7265706c;

constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

Draws::Draws(const Scenario& scenario, std::uint32_t replica)
    : scenario_(scenario),
      seed_(replica == 0 ? scenario.seed : host::draws::bits({kReplica, scenario.seed, replica})),
      size_of_(scenario.pipeline.chunks(), kNone) {
  for (std::uint32_t i = 0; i < scenario.sizes.size(); ++i) {
    for (const Chunk chunk : scenario.sizes[i].chunks) size_of_[chunk] = i;
  }
  for (const Link& link : scenario.links)
    fixed_delays_.push_back(link.latency + Duration(std::llround(link.wire_ns())));
}

double Draws::size(std::uint64_t iteration, const Task& task) const {
  const std::uint32_t number = size_of_[task.chunk];
  if (number == kNone) return 1;
  const SizeFactor& size = scenario_.sizes[number];
  if (!size.factors.empty()) return size.factors[task.microbatch];
  if (size.sigma == 0) return 1;
  const double z = host::draws::normal({kSizes, seed_, iteration, number, task.microbatch});
  return std::min(std::exp(size.sigma * z - size.sigma * size.sigma / 2), host::DurationModel::kLargestSize);
}

Duration Draws::task_time(std::uint64_t iteration, const Task& task, bool whole) const {
  if (scenario_.recorded_time) {
    if (const auto recorded = scenario_.recorded_time(iteration, task, whole)) return *recorded;
  }
  return scenario_.times[task.chunk].draw(seed_, iteration, task, whole, 1, size(iteration, task));
}

Duration Draws::skew(const MessageId& message, std::uint32_t member) const {
  if (scenario_.skew.mean == Duration{0} || scenario_.group.size == 1) return Duration{0};
  const auto mean = static_cast<double>(scenario_.skew.mean.count());
  const host::draws::Key key = {kSkew,
                                seed_,
                                message.iteration,
                                message.edge,
                                static_cast<std::uint64_t>(message.direction),
                                message.microbatch,
                                member};
  const bool uniform = scenario_.skew.kind == Skew::Kind::Uniform;
  return Duration(
      std::llround(mean * (uniform ? 2 * host::draws::uniform(key) : host::draws::exponential(key))));
}

Duration Draws::delay(const MessageId& message, Duration compute_average) const {
  if (scenario_.recorded_delay) {
    if (const auto recorded = scenario_.recorded_delay(message)) return *recorded;
  }
  const host::DelayModel& jitter = scenario_.links[message.edge].jitter;
  const Duration late = jitter.none() ? Duration{0} : jitter.draw(seed_, message, compute_average);
  return fixed_delays_[message.edge] + late;
}

Duration Draws::message_delay(const Transit& transit) const {
  const Duration average = scenario_.nominal_compute.value_or(transit.compute_average);
  return delay(transit.id, average) + skew(transit.id, transit.member);
}

Duration Draws::least_delay(const MessageId& message) const {
  Duration latest{0};
  for (std::uint32_t member = 0; member < scenario_.group.size; ++member)
    latest = std::max(latest, skew(message, member));
  return delay(message, scenario_.nominal_compute.value_or(Duration{0})) + latest;
}

}  // namespace sluice::sim
