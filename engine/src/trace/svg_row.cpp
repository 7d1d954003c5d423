#include "svg_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace sluice::trace {
namespace {

constexpr double kDigitWidth = 5.3;
constexpr double kLabelPadding = 2;
constexpr double kLabelDrop = 3.2;
constexpr double kLeastLabelledHeight = 11;
constexpr double kLeastWidth = 0.4;

/// What is left free after a task, so that neighbours can be told apart.
double gap_after(double width) {
  if (width > 6) return 1;
  return width > 2 ? 0.5 : 0;
}

struct Brush {
  std::string path;
  std::string labels;
};

/// Brushes of one row, by chunk and kind.
using Brushes = std::map<std::pair<std::size_t, std::size_t>, Brush>;

std::vector<Chunk> chunks_of(std::span<const TaskSpan> tasks) {
  std::vector<Chunk> chunks;
  for (const TaskSpan& span : tasks) chunks.push_back(span.task.chunk);
  std::ranges::sort(chunks);
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

bool has_label(double width, const RowScale& scale) {
  return scale.height >= kLeastLabelledHeight &&
         width >= kDigitWidth * static_cast<double>(scale.digits) + kLabelPadding;
}

double to_tenth(double value) { return std::round(value * 10) / 10; }

void add(Brush& brush, const TaskSpan& span, double start_s, const RowScale& scale) {
  const double left = to_tenth((span.start_s - start_s) * scale.per_second);
  const double right = to_tenth((span.end_s - start_s) * scale.per_second);
  const double width = std::max(right - left - gap_after(right - left), kLeastWidth);
  brush.path += fmt::format("M{} 0h{}", coordinate(left), coordinate(width));
  if (!has_label(width, scale)) return;
  brush.labels += fmt::format("<text x=\"{}\">{}</text>", coordinate(left + width / 2), span.task.microbatch);
}

std::string draw(const Brush& brush, const TaskKind& kind, std::size_t paleness) {
  const std::string pale = paleness > 0 ? fmt::format(" p{}", paleness) : "";
  std::string text = fmt::format("<path class=\"{}{}\" d=\"{}\"/>", kind.name, pale, brush.path);
  if (brush.labels.empty()) return text;
  const bool ink = theme::kPaleness[paleness] > theme::kInkPaleness;
  return text + fmt::format("<g class=\"n{}\" transform=\"translate(0 {})\">{}</g>",
                            ink ? std::string() : fmt::format(" n{}", kind.name), kLabelDrop, brush.labels);
}

}  // namespace

std::size_t kind_of(const TaskSpan& span) {
  const bool whole = span.task.pass == Pass::Backward && span.whole;
  const auto found = std::ranges::find_if(
      kTaskKinds, [&](const TaskKind& kind) { return kind.pass == span.task.pass && kind.whole == whole; });
  return static_cast<std::size_t>(found - kTaskKinds.begin());
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string svg_row(std::span<const TaskSpan> tasks, double start_s, const RowScale& scale) {
  const std::vector<Chunk> chunks = chunks_of(tasks);
  Brushes brushes;
  for (const TaskSpan& span : tasks) {
    const auto ordinal = std::ranges::lower_bound(chunks, span.task.chunk) - chunks.begin();
    const auto paleness = std::min(static_cast<std::size_t>(ordinal), theme::kPaleness.size() - 1);
    add(brushes[{paleness, kind_of(span)}], span, start_s, scale);
  }
  std::string text;
  for (const auto& [key, brush] : brushes) text += draw(brush, kTaskKinds[key.second], key.first);
  return text;
}

std::string svg_row_style() {
  std::string style =
      fmt::format(".n text{{font-size:9px;font-weight:600;text-anchor:middle;fill:{}}}", theme::kInk.light);
  for (const TaskKind& kind : kTaskKinds) {
    style +=
        fmt::format(".{0}{{stroke:{1}}}.n{0} text{{fill:{2}}}", kind.name, kind.fill.light, kind.text.light);
  }
  for (std::size_t i = 1; i < theme::kPaleness.size(); ++i) {
    style += fmt::format(".p{}{{stroke-opacity:{}}}", i, 1 - theme::kPaleness[i]);
  }
  return style;
}

}  // namespace sluice::trace
