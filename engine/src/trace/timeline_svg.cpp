#include "sluice/trace/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "svg_row.hpp"
#include "time_axis.hpp"
#include "xml_text.hpp"

namespace sluice::trace {
namespace {

constexpr double kWidth = 960;
constexpr double kMargin = 16;
constexpr double kGutter = 72;
constexpr double kPlotWidth = kWidth - kGutter - 28;
constexpr double kHeaderHeight = 44;
constexpr double kTitle = 26;
constexpr double kPanelGap = 16;
constexpr double kAxis = 32;
constexpr double kPanelRows = 240;
constexpr double kRowGap = 2;
constexpr int kMostTicks = 12;
constexpr std::size_t kLongestName = 64;
/// About the width of a character of the legend.
constexpr double kCharacterWidth = 6.6;
/// A timeline of instants still needs an axis.
constexpr double kShortestAxisSeconds = 1e-9;

/// One method in the iteration that is drawn.
struct Panel {
  const MethodTimeline* method = nullptr;
  std::optional<IterationSummary> summary;
  /// Of the iteration, by stage and start.
  std::vector<TaskSpan> spans;
  double top = 0;
  double row_height = 0;

  [[nodiscard]] double rows_top() const { return top + kTitle; }
  [[nodiscard]] double bottom() const { return rows_top() + row_height * method->stages; }
  [[nodiscard]] double row_middle(std::uint32_t stage) const {
    return rows_top() + row_height * (stage + 0.5);
  }
};

struct Picture {
  std::uint64_t iteration = 0;
  std::vector<Panel> panels;
  double end_s = kShortestAxisSeconds;

  [[nodiscard]] double bottom() const { return panels.empty() ? kHeaderHeight : panels.back().bottom(); }
  [[nodiscard]] double per_second() const { return kPlotWidth / end_s; }
};

using Summaries = std::vector<std::vector<IterationSummary>>;

/// Of the iterations that most methods ran, the last one; 0 if none ran.
std::uint64_t most_common_iteration(const Summaries& summaries) {
  std::map<std::uint64_t, std::size_t> methods;
  for (const auto& of_method : summaries) {
    for (const IterationSummary& summary : of_method) ++methods[summary.iteration];
  }
  std::pair<std::size_t, std::uint64_t> best = {0, 0};
  for (const auto& [iteration, count] : methods) best = std::max(best, {count, iteration});
  return best.second;
}

std::vector<TaskSpan> spans_of(const MethodTimeline& method, std::uint64_t iteration) {
  std::vector<TaskSpan> spans;
  std::ranges::copy_if(method.spans, std::back_inserter(spans),
                       [&](const TaskSpan& span) { return span.iteration == iteration; });
  std::ranges::sort(spans, {}, [](const TaskSpan& span) {
    return std::tuple(span.stage, span.start_s, span.end_s, span.task, span.whole);
  });
  return spans;
}

Picture lay_out(std::span<const MethodTimeline> methods, std::optional<std::uint64_t> iteration) {
  Summaries summaries;
  for (const MethodTimeline& method : methods) summaries.push_back(summarize(method));
  Picture picture;
  picture.iteration = iteration ? *iteration : most_common_iteration(summaries);
  double top = kHeaderHeight;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const std::uint32_t stages = std::max(methods[i].stages, 1U);
    Panel panel{&methods[i],
                {},
                spans_of(methods[i], picture.iteration),
                top,
                std::clamp(std::floor(kPanelRows / stages), 8.0, 22.0)};
    const auto found = std::ranges::find(summaries[i], picture.iteration, &IterationSummary::iteration);
    if (found != summaries[i].end()) {
      panel.summary = *found;
      picture.end_s = std::max(picture.end_s, found->makespan_s);
    }
    top = panel.bottom() + kPanelGap;
    picture.panels.push_back(std::move(panel));
  }
  return picture;
}

bool has_later_chunks(const Panel& panel) {
  const auto on_the_stage = [](const TaskSpan& a, const TaskSpan& b) {
    return a.stage == b.stage && a.task.chunk != b.task.chunk;
  };
  return std::ranges::adjacent_find(panel.spans, on_the_stage) != panel.spans.end();
}

bool any_span(const Picture& picture, const auto& matches) {
  return std::ranges::any_of(picture.panels,
                             [&](const Panel& panel) { return std::ranges::any_of(panel.spans, matches); });
}

RowScale row_scale(const Picture& picture, const Panel& panel) {
  Microbatch largest = 0;
  for (const Panel& each : picture.panels) {
    for (const TaskSpan& span : each.spans) largest = std::max(largest, span.task.microbatch);
  }
  return {picture.per_second(), panel.row_height - kRowGap, std::to_string(largest).size()};
}

std::string style() {
  return fmt::format(
             "<style>text{{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:{}}}"
             "text.m{{font-size:14px;font-weight:600;fill:{}}}tspan{{font-weight:600;fill:{}}}"
             ".e{{text-anchor:end}}.c{{text-anchor:middle}}",
             theme::kFaint.light, theme::kInk.light, theme::kInk.light) +
         svg_row_style() + "</style>\n";
}

/// Names of colours, from left to right.
class Legend {
 public:
  void add(const ThemeColor& color, std::string_view text) {
    text_ += fmt::format(R"(<rect x="{}" y="14" width="12" height="12" rx="3" fill="{}"/>)", coordinate(x_),
                         color.light);
    x_ += 18;
    add(text);
  }

  void add(std::string_view text) {
    text_ += fmt::format(R"(<text x="{}" y="24">{}</text>)", coordinate(x_), text);
    x_ += kCharacterWidth * static_cast<double>(text.size()) + 16;
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  double x_ = kMargin;
  std::string text_;
};

std::string legend(const Picture& picture) {
  Legend legend;
  for (std::size_t kind = 0; kind < kTaskKinds.size(); ++kind) {
    if (any_span(picture, [&](const TaskSpan& span) { return kind_of(span) == kind; })) {
      legend.add(kTaskKinds[kind].fill, kTaskKinds[kind].legend);
    }
  }
  if (!any_span(picture, [](const TaskSpan&) { return true; })) return "";
  legend.add(theme::kRow, "idle");
  if (std::ranges::any_of(picture.panels, has_later_chunks)) legend.add("paler: later chunk of the stage");
  return legend.text();
}

std::string figures(const Picture& picture, const Panel& panel) {
  if (!panel.summary) return "did not run in this iteration";
  std::string text = fmt::format("makespan <tspan>{}</tspan>\u2002\u2002bubble <tspan>{:.1f} %</tspan>",
                                 format_time(panel.summary->makespan_s), 100 * panel.summary->bubble_share);
  const Panel& first = picture.panels.front();
  if (&panel == &first || !first.summary || panel.summary->makespan_s <= 0) return text;
  return text + fmt::format("\u2002\u2002speed-up over {} <tspan>{:.2f}\u00d7</tspan>",
                            xml_text(shortened(first.method->name, kLongestName / 2)),
                            first.summary->makespan_s / panel.summary->makespan_s);
}

std::string frame(const Panel& panel, const std::vector<Tick>& ticks, double per_second) {
  std::string text = fmt::format(R"(<g fill="{}">)", theme::kRow.light);
  for (std::uint32_t stage = 0; stage < panel.method->stages; ++stage) {
    text += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}"/>)", kGutter,
                        coordinate(panel.row_middle(stage) - (panel.row_height - kRowGap) / 2), kPlotWidth,
                        coordinate(panel.row_height - kRowGap));
  }
  text += "</g>\n<path stroke=\"" + std::string(theme::kLine.light) + "\" d=\"";
  for (const Tick& tick : ticks) {
    text += fmt::format("M{} {}V{}", coordinate(kGutter + tick.time_s * per_second),
                        coordinate(panel.rows_top()), coordinate(panel.bottom()));
  }
  return text + "\"/>\n";
}

std::string rows(const Panel& panel, const RowScale& scale) {
  std::string text = fmt::format("<g stroke-width=\"{}\">\n", coordinate(scale.height));
  auto next = panel.spans.begin();
  for (std::uint32_t stage = 0; stage < panel.method->stages; ++stage) {
    const std::string middle = coordinate(panel.row_middle(stage));
    if (panel.row_height >= 12 || stage % 4 == 0) {
      text += fmt::format("<text class=\"e\" x=\"{}\" y=\"{}\">stage {}</text>", kGutter - 8,
                          coordinate(panel.row_middle(stage) + 4), stage);
    }
    const auto end =
        std::find_if(next, panel.spans.end(), [&](const TaskSpan& s) { return s.stage != stage; });
    if (next == end) continue;
    text += fmt::format("<g transform=\"translate({} {})\">{}</g>\n", kGutter, middle,
                        svg_row({next, end}, panel.summary->start_s, scale));
    next = end;
  }
  return text + "</g>\n";
}

std::string end_line(const Panel& panel, double per_second) {
  if (!panel.summary) return "";
  return fmt::format("<path stroke=\"{}\" stroke-dasharray=\"4 3\" d=\"M{} {}V{}\"/>\n", theme::kInk.light,
                     coordinate(kGutter + panel.summary->makespan_s * per_second),
                     coordinate(panel.rows_top()), coordinate(panel.bottom()));
}

std::string draw(const Picture& picture, const Panel& panel, const std::vector<Tick>& ticks) {
  const double per_second = picture.per_second();
  return fmt::format(
             "<g>\n<title>{}</title>\n<text class=\"m\" x=\"{}\" y=\"{}\">{}</text>\n"
             "<text class=\"e\" x=\"{}\" y=\"{}\">{}</text>\n",
             xml_text(panel.method->name), kMargin, coordinate(panel.top + 16),
             xml_text(shortened(panel.method->name, kLongestName)), kGutter + kPlotWidth,
             coordinate(panel.top + 16), figures(picture, panel)) +
         frame(panel, ticks, per_second) + rows(panel, row_scale(picture, panel)) +
         end_line(panel, per_second) + "</g>\n";
}

std::string axis(const Picture& picture, const std::vector<Tick>& ticks) {
  std::string text = "<g class=\"c\">";
  for (const Tick& tick : ticks) {
    text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>",
                        coordinate(kGutter + tick.time_s * picture.per_second()),
                        coordinate(picture.bottom() + 16), tick.label);
  }
  return text + "</g>\n";
}

std::string header(const Picture& picture) {
  const bool ran = any_span(picture, [](const TaskSpan&) { return true; });
  const std::string caption =
      ran ? fmt::format("iteration {}", picture.iteration) : std::string("No task was recorded.");
  return fmt::format("{}<text class=\"e\" x=\"{}\" y=\"24\">{}</text>\n", legend(picture),
                     kGutter + kPlotWidth, caption);
}

}  // namespace

std::string timeline_svg(std::span<const MethodTimeline> methods, std::optional<std::uint64_t> iteration) {
  const Picture picture = lay_out(methods, iteration);
  const std::vector<Tick> ticks = axis_ticks(picture.end_s, kMostTicks);
  const std::string height = coordinate(picture.bottom() + kAxis);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" fill=\"none\">\n<title>Sluice timeline</title>\n",
      kWidth, height);
  text += style();
  text += fmt::format(
      "<rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{}\" stroke=\"{}\"/>\n", kWidth - 1,
      coordinate(picture.bottom() + kAxis - 1), theme::kCard.light, theme::kLine.light);
  text += header(picture);
  for (const Panel& panel : picture.panels) text += draw(picture, panel, ticks);
  if (!picture.panels.empty()) text += axis(picture, ticks);
  return text + "</svg>\n";
}

}  // namespace sluice::trace
