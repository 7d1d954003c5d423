#include "sluice/process/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sluice/error.hpp"
#include "text_bytes.hpp"

namespace sluice::process {
namespace {

using nlohmann::json;
using Blob = std::vector<std::byte>;
using Exchange = std::function<std::vector<Blob>(std::span<const std::byte>)>;

constexpr std::size_t kFieldsNamed = 8;
constexpr std::size_t kRanksNamed = 4;

/// FNV-1a, 64 bits.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Text that is not UTF-8 (a path may be anything) must not end the exchange.
std::string text_of(const Configuration& configuration) {
  return json(configuration).dump(-1, ' ', false, json::error_handler_t::replace);
}

Configuration configuration_of(const Blob& blob, std::size_t rank) {
  const char* text = reinterpret_cast<const char*>(blob.data());
  try {
    return json::parse(text, text + blob.size()).get<Configuration>();
  } catch (const json::exception& error) {
    throw Error(fmt::format("rank {} sent no configuration: {}", rank, error.what()));
  }
}

/// The value a rank has for a field; nothing if it has no such field.
using Value = std::optional<std::string>;

Value value_of(const Configuration& configuration, const std::string& field) {
  const auto found = std::find_if(configuration.begin(), configuration.end(),
                                  [&field](const auto& entry) { return entry.first == field; });
  return found == configuration.end() ? Value() : Value(found->second);
}

std::vector<std::string> fields_of(std::span<const Configuration> all) {
  std::vector<std::string> fields;
  for (const Configuration& configuration : all) {
    for (const auto& [field, value] : configuration) {
      if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
    }
  }
  return fields;
}

std::string describe_group(const std::vector<std::size_t>& ranks, const Value& value) {
  std::string who = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksNamed); ++i) {
    if (i > 0) who += i + 1 == ranks.size() ? " and " : ", ";
    who += std::to_string(ranks[i]);
  }
  if (ranks.size() > kRanksNamed) who += fmt::format(" and {} more", ranks.size() - kRanksNamed);
  const std::string verb = ranks.size() == 1 ? "has" : "have";
  return fmt::format("{} {} {}", who, verb, value ? *value : "no such field");
}

/// Who has what, rank 0 last, as that is what the others are measured by; empty if all have the same.
std::string difference(std::span<const Configuration> all, const std::string& field) {
  std::vector<std::pair<Value, std::vector<std::size_t>>> groups;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Value value = value_of(all[rank], field);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&value](const auto& group) { return group.first == value; });
    if (same == groups.end()) {
      groups.push_back({value, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  if (groups.size() == 1) return {};
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  std::string text;
  for (const auto& [value, ranks] : groups) text += (text.empty() ? "" : ", ") + describe_group(ranks, value);
  return text;
}

void check(const Exchange& exchange, const Configuration& own) {
  const std::string text = text_of(own);
  const std::string hash = fmt::format("{:016x}", hash_of(text));
  const std::vector<Blob> hashes = exchange(bytes_of(hash));
  if (std::all_of(hashes.begin(), hashes.end(), [&hashes](const Blob& blob) { return blob == hashes[0]; }))
    return;
  const std::vector<Blob> texts = exchange(bytes_of(text));
  std::vector<Configuration> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) all.push_back(configuration_of(texts[rank], rank));
  require_same(all);
  throw ConfigError("configuration", "ranks give the same fields in different orders");
}

}  // namespace

void require_same(std::span<const Configuration> all) {
  std::string first;
  std::string reason;
  std::size_t differing = 0;
  for (const std::string& field : fields_of(all)) {
    const std::string text = difference(all, field);
    if (text.empty() || ++differing > kFieldsNamed) continue;
    if (differing == 1) {
      first = field;
      reason = text;
    } else {
      reason += fmt::format("; {}: {}", field, text);
    }
  }
  if (differing == 0) return;
  if (differing > kFieldsNamed) reason += fmt::format("; and {} more fields", differing - kFieldsNamed);
  throw ConfigError(first, reason);
}

void check_same_configuration(Bootstrap& bootstrap, const Configuration& own) {
  check([&bootstrap](std::span<const std::byte> bytes) { return bootstrap.all_gather(bytes); }, own);
}

void check_same_configuration(ControlPlane& control, const Configuration& own) {
  check([&control](std::span<const std::byte> bytes) { return control.all_gather(bytes); }, own);
}

}  // namespace sluice::process
