#include "sluice/process/process_place.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

constexpr std::uint32_t kMostRanks = 1U << 20;
constexpr std::array kRequired = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

std::uint32_t number_of(const char* name, std::string_view text, std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw ConfigError(name, fmt::format("\"{}\" is not a number from {} to {}", text, least, most));
  return value;
}

/// What is set of the required ones: all, or none.
bool complete(const Environment& environment) {
  const char* set = nullptr;
  const char* missing = nullptr;
  for (const char* name : kRequired) (environment(name) != nullptr ? set : missing) = name;
  if (set != nullptr && missing != nullptr)
    throw ConfigError(missing, fmt::format("is not set although {} is", set));
  return set != nullptr;
}

}  // namespace

std::optional<ProcessPlace> environment_place(const Environment& environment) {
  const Environment value = environment ? environment : [](const char* name) { return std::getenv(name); };
  if (!complete(value)) return std::nullopt;
  ProcessPlace place;
  place.ranks = number_of("WORLD_SIZE", value("WORLD_SIZE"), 1, kMostRanks);
  place.rank = number_of("RANK", value("RANK"), 0, place.ranks - 1);
  place.host = value("MASTER_ADDR");
  if (place.host.empty()) throw ConfigError("MASTER_ADDR", "is empty");
  place.port = static_cast<std::uint16_t>(
      number_of("MASTER_PORT", value("MASTER_PORT"), 1, std::numeric_limits<std::uint16_t>::max()));
  const char* local_ranks = value("LOCAL_WORLD_SIZE");
  const char* local_rank = value("LOCAL_RANK");
  place.local_ranks =
      local_ranks != nullptr ? number_of("LOCAL_WORLD_SIZE", local_ranks, 1, place.ranks) : place.ranks;
  place.local_rank =
      local_rank != nullptr ? number_of("LOCAL_RANK", local_rank, 0, place.local_ranks - 1) : place.rank;
  if (place.local_rank >= place.local_ranks)
    throw ConfigError("LOCAL_RANK", fmt::format("is not set, and RANK {} is not below LOCAL_WORLD_SIZE {}",
                                                place.rank, place.local_ranks));
  return place;
}

}  // namespace sluice::process
