#pragma once

#include <string>
#include <string_view>

namespace sluice::trace {

/// The page of `timeline_html` before, between and after what is filled in: style, data, script.
[[nodiscard]] std::string timeline_style();
extern const std::string_view kTimelineBody;
extern const std::string_view kTimelineScript;

}  // namespace sluice::trace
