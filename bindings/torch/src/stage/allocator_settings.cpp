#include "sluice/torch/cuda/allocator_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

constexpr const char* kNoCaching = "PYTORCH_NO_CUDA_MEMORY_CACHING";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

/// Up to the comma that is in no brackets.
std::string_view first_entry(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth <= 0) return text.substr(0, i);
  }
  return text;
}

}  // namespace

AllocatorSettings AllocatorSettings::of_environment() {
  AllocatorSettings settings;
  for (const char* const name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    settings.variable = name;
    settings.text = value;
    break;
  }
  settings.caches = std::getenv(kNoCaching) == nullptr;
  return settings;
}

std::optional<std::string> AllocatorSettings::find(const std::string& name) const {
  std::optional<std::string> found;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = first_entry(rest);
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos || trimmed(entry.substr(0, colon)) != name) continue;
    found = trimmed(entry.substr(colon + 1));
  }
  return found;
}

void check_allocator(const AllocatorSettings& settings) {
  if (!settings.caches) {
    throw ConfigError(
        kNoCaching,
        "a capture needs memory that stays where it is for its replays, which torch's allocator "
        "keeps only if it caches: unset it");
  }
  if (settings.find("backend") == "cudaMallocAsync") {
    throw ConfigError(settings.variable,
                      "backend:cudaMallocAsync allocates within each graph, so that what a forward saves is "
                      "gone before its backward: use backend:native");
  }
  if (settings.find("graph_capture_record_stream_reuse") == "True") {
    throw ConfigError(settings.variable,
                      "graph_capture_record_stream_reuse:True asks streams that still capture what they may "
                      "not be asked: leave it out");
  }
}

}  // namespace sluice::capture
