#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sluice/trace/timeline.hpp"

namespace sluice::trace {

/// Events count in microseconds.
inline constexpr double kMicroseconds = 1e6;

/// The names of a process and its threads, and its tasks.
void append_tasks(nlohmann::json& events, const MethodTimeline& method, std::size_t pid);

/// The events as a document.
[[nodiscard]] std::string document_of(nlohmann::json events);

}  // namespace sluice::trace
