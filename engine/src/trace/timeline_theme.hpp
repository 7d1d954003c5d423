#pragma once

#include <array>
#include <string_view>

namespace sluice::trace {

/// A colour of the timelines, by the name their style sheets use. On a light and on a dark page.
struct ThemeColor {
  std::string_view name;
  std::string_view light;
  std::string_view dark;
};

namespace theme {

inline constexpr ThemeColor kPage{"page", "#f6f7f9", "#14171b"};
inline constexpr ThemeColor kCard{"card", "#ffffff", "#1c2026"};
inline constexpr ThemeColor kInk{"ink", "#1c2127", "#e6e9ed"};
inline constexpr ThemeColor kFaint{"faint", "#646f7c", "#98a2ae"};
inline constexpr ThemeColor kLine{"line", "#d9dee5", "#343b45"};
/// A stage that runs nothing.
inline constexpr ThemeColor kRow{"row", "#eef1f5", "#262b33"};
inline constexpr ThemeColor kForward{"forward", "#4a86d8", "#4f8fe6"};
inline constexpr ThemeColor kBackward{"backward", "#d9643a", "#d4683f"};
inline constexpr ThemeColor kInput{"input", "#eda53f", "#e2a24a"};
inline constexpr ThemeColor kWeight{"weight", "#3a9e7c", "#3fa583"};
inline constexpr ThemeColor kOnForward{"on-forward", "#ffffff", "#ffffff"};
inline constexpr ThemeColor kOnBackward{"on-backward", "#ffffff", "#ffffff"};
inline constexpr ThemeColor kOnInput{"on-input", "#3a2600", "#2b1c00"};
inline constexpr ThemeColor kOnWeight{"on-weight", "#ffffff", "#ffffff"};

inline constexpr std::array kColors = {kPage,      kCard,       kInk,      kFaint,   kLine,
                                       kRow,       kForward,    kBackward, kInput,   kWeight,
                                       kOnForward, kOnBackward, kOnInput,  kOnWeight};

/// Share of its colour a task loses, by the ordinal of its chunk on the stage; the last one holds
/// for all later chunks.
inline constexpr std::array kPaleness = {0.0, 0.3, 0.5, 0.62};
/// Paler than this, ink reads better on a task than the colour for text on it.
inline constexpr double kInkPaleness = 0.25;

}  // namespace theme
}  // namespace sluice::trace
