#include "notebook.hpp"

#include <fmt/format.h>

#include "sluice/trace/timeline_svg.hpp"

namespace sluice::python {
namespace {

constexpr std::size_t kMostDrawn = 20'000;

}  // namespace

std::string timeline_figure(std::span<const trace::MethodTimeline> timelines) {
  std::size_t tasks = 0;
  for (const trace::MethodTimeline& each : timelines) tasks += each.spans.size();
  if (tasks > kMostDrawn)
    return fmt::format("<p>{} tasks are too many to draw here: see timeline_html().</p>", tasks);
  return fmt::format("<div>{}</div>", trace::timeline_svg(timelines));
}

}  // namespace sluice::python
