#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "sluice/trace/timeline.hpp"
#include "timeline_theme.hpp"

namespace sluice::trace {

/// One colour of tasks. `name` is its class in the document.
struct TaskKind {
  Pass pass;
  bool whole;
  std::string_view name;
  std::string_view legend;
  ThemeColor fill;
  ThemeColor text;
};

inline constexpr std::array<TaskKind, 4> kTaskKinds = {{
    {Pass::Forward, false, "f", "F forward", theme::kForward, theme::kOnForward},
    {Pass::Backward, true, "b", "B whole backward", theme::kBackward, theme::kOnBackward},
    {Pass::Backward, false, "i", "B input gradient", theme::kInput, theme::kOnInput},
    {Pass::WeightGrad, false, "w", "W weight gradient", theme::kWeight, theme::kOnWeight},
}};

/// Its index in kTaskKinds.
[[nodiscard]] std::size_t kind_of(const TaskSpan& span);

/// A coordinate with at most one decimal.
[[nodiscard]] std::string coordinate(double value);

/// How all rows of a picture are drawn, lengths in its units.
struct RowScale {
  double per_second = 1;
  double height = 0;
  /// Digits of the largest microbatch: a task has its number if any number would fit.
  std::size_t digits = 1;
};

/// The tasks of one stage, by start, in a frame with x 0 at `start_s` and y 0 in the row's middle: a
/// path per kind and chunk, a subpath per task, stroked as wide as the row is high.
[[nodiscard]] std::string svg_row(std::span<const TaskSpan> tasks, double start_s, const RowScale& scale);

/// The style rules that `svg_row` relies on.
[[nodiscard]] std::string svg_row_style();

}  // namespace sluice::trace
