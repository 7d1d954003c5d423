#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sluice::capture {
struct CheckReport;
struct CheckSettings;
}  // namespace sluice::capture

namespace sluice::tools {

/// The findings for people: worst first, each with its place, cause and remedy.
[[nodiscard]] std::string capture_text(const capture::CheckReport& report);

/// `3 findings stop a capture, 1 makes it silently wrong`
[[nodiscard]] std::string capture_verdict(const capture::CheckReport& report);

[[nodiscard]] nlohmann::json capture_json(const std::string& module, const capture::CheckSettings& settings,
                                          const capture::CheckReport& report);

}  // namespace sluice::tools
