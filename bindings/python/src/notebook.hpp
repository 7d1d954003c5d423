#pragma once

#include <span>
#include <string>

#include "sluice/trace/timeline.hpp"

/// What a notebook shows of a result.
namespace sluice::python {

/// The picture of the timelines' last iteration as a part of a page; a sentence in its place where it would
/// have too many tasks to be of use.
[[nodiscard]] std::string timeline_figure(std::span<const trace::MethodTimeline> timelines);

}  // namespace sluice::python
