#include "sluice/sim/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::sim {
namespace {

constexpr std::uint32_t kDefaultLimit = 32;
constexpr std::uint32_t kDeepest = 64;
constexpr Duration kLongestDelay = std::chrono::minutes(10);
constexpr double kLongestDelayNs = std::chrono::duration<double, std::nano>(kLongestDelay).count();

void check_count(const std::string& field, std::uint64_t value, std::uint64_t most) {
  if (value == 0 || value > most) throw ConfigError(field, "must be 1 to " + std::to_string(most));
}

void check_delay(const std::string& field, Duration value) {
  if (value < Duration{0} || value > kLongestDelay) throw ConfigError(field, "must lie in 0 to 10 minutes");
}

void check_length(const std::string& field, std::size_t given, std::size_t needed, const char* what) {
  if (given == needed) return;
  throw ConfigError(field, std::to_string(given) + " given for " + std::to_string(needed) + " " + what);
}

void check_link(const std::string& field, const Link& link) {
  check_delay(field + ".latency", link.latency);
  if (!(link.bandwidth >= 0) || std::isinf(link.bandwidth))
    throw ConfigError(field + ".bandwidth", "must be a number of bytes per second, 0 for without bound");
  if (link.wire_ns() > kLongestDelayNs)
    throw ConfigError(field + ".bytes", "take more than 10 minutes at this bandwidth");
}

void check_size(const std::string& field, const SizeFactor& size, const Pipeline& pipeline,
                std::vector<bool>& taken) {
  if (size.chunks.empty()) throw ConfigError(field + ".chunks", "name at least one");
  for (const Chunk chunk : size.chunks) {
    if (chunk >= pipeline.chunks()) {
      throw ConfigError(field + ".chunks", "chunk " + std::to_string(chunk) + " is not one of " +
                                               std::to_string(pipeline.chunks()));
    }
    if (taken[chunk])
      throw ConfigError(field + ".chunks", "chunk " + std::to_string(chunk) + " has a size already");
    taken[chunk] = true;
  }
  if (!(size.sigma >= 0 && size.sigma <= host::DurationModel::kMaxSigma))
    throw ConfigError(field + ".sigma", "must lie in 0 to 2");
  if (size.factors.empty()) return;
  if (size.sigma > 0) throw ConfigError(field + ".sigma", "has no meaning beside factors");
  check_length(field + ".factors", size.factors.size(), pipeline.microbatches(), "microbatches");
  for (const double factor : size.factors) {
    if (!(factor > 0 && factor <= host::DurationModel::kLargestSize))
      throw ConfigError(field + ".factors", "must be above 0 and at most 1000");
  }
}

}  // namespace

Scenario::Scenario(Pipeline model)
    : pipeline(std::move(model)),
      times(pipeline.chunks(), host::DurationModel(host::DurationModel::Times{})),
      links(pipeline.edges().size()),
      limits(pipeline.stages(), kDefaultLimit) {}

void Scenario::validate() const {
  if (pipeline.split_backward()) throw ConfigError("pipeline", "a scenario leaves the split to the methods");
  if (std::uint64_t{pipeline.chunks()} * pipeline.microbatches() * kPasses > kMostTasks)
    throw ConfigError("microbatches", "the pipeline would have more than 2^25 tasks");
  check_length("times", times.size(), pipeline.chunks(), "chunks");
  check_length("links", links.size(), pipeline.edges().size(), "edges");
  check_length("limit", limits.size(), pipeline.stages(), "stages");
  for (std::size_t edge = 0; edge < links.size(); ++edge)
    check_link("links[" + std::to_string(edge) + "]", links[edge]);
  std::vector<bool> taken(pipeline.chunks());
  for (std::size_t i = 0; i < sizes.size(); ++i)
    check_size("sizes[" + std::to_string(i) + "]", sizes[i], pipeline, taken);
  check_count("replicas", replicas, kMostReplicas);
  check_count("group", group.size, kLargestGroup);
  const bool first_pick =
      group.form ? group.form == agree::Form::FirstPick : group.rule == GroupRule::FirstPick;
  if (group.size > 1 && first_pick && rules.bounded_admission) {
    throw ConfigError(group.form ? "agreement" : "group-rule",
                      "first-pick needs the published rules (rules = paper): ranks that take in different "
                      "microbatches up to the limit may never name the same one");
  }
  check_count("launch-ahead", depth, kDeepest);
  check_delay("agreement-latency", group.latency);
  check_delay("skew", skew.mean);
  check_delay("overhead.task", overhead.task);
  check_delay("overhead.hop", overhead.hop);
}

bool Scenario::measures_compute() const {
  const auto levels = [](const Link& link) { return link.jitter.uses_average(); };
  return !nominal_compute && std::any_of(links.begin(), links.end(), levels);
}

Surroundings surroundings(const Scenario& scenario, std::uint32_t replica) {
  Surroundings made;
  const auto draws = std::make_shared<const Draws>(scenario, replica);
  made.task_time = [draws](const Launch& launch) {
    return draws->task_time(launch.iteration, launch.task, launch.whole);
  };
  made.message_delay = [draws](const Transit& transit) { return draws->message_delay(transit); };
  made.depth = scenario.depth;
  made.group = scenario.group;
  made.overhead = scenario.overhead;
  return made;
}

}  // namespace sluice::sim
