#include <fmt/format.h>
#include <fmt/ranges.h>

#include "timeline_page.hpp"
#include "timeline_theme.hpp"

namespace sluice::trace {
namespace {

constexpr std::string_view kRules = R"css(
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, "Segoe UI", sans-serif; }
header { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: 8px 20px;
  align-items: center; padding: 10px 20px; background: var(--card); border-bottom: 1px solid var(--line); }
h1 { margin: 0; font-size: 16px; font-weight: 650; }
h2 { margin: 0; font-size: 15px; font-weight: 650; overflow-wrap: anywhere; }
label { display: flex; gap: 6px; align-items: center; color: var(--faint); }
button, select { font: inherit; color: var(--ink); background: var(--row); border: 1px solid var(--line);
  border-radius: 6px; padding: 3px 10px; }
button:hover { border-color: var(--faint); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; color: var(--faint); }
.legend span::before { content: ""; display: inline-block; width: 12px; height: 12px; margin-right: 6px;
  border-radius: 3px; background: var(--swatch); vertical-align: -1px; }
.hint { margin-left: auto; color: var(--faint); font-size: 12px; }
main { padding: 16px 20px 32px; }
section { margin-bottom: 16px; padding: 12px 16px 8px; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.title { display: flex; flex-wrap: wrap; gap: 2px 18px; align-items: baseline; margin-bottom: 8px; }
.title span { color: var(--faint); font-variant-numeric: tabular-nums; }
.title b { color: var(--ink); font-weight: 600; }
.plot { position: relative; overflow: hidden; }
.plot canvas { display: block; width: 100%; cursor: grab; touch-action: pan-y; outline-offset: 2px; }
.plot canvas.dragging { cursor: grabbing; }
.cursor { position: absolute; top: 0; bottom: 0; width: 1px; background: var(--ink); opacity: 0.35;
  pointer-events: none; }
#tooltip { position: fixed; z-index: 3; padding: 8px 12px; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px;
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.22); pointer-events: none; font-size: 13px;
  font-variant-numeric: tabular-nums; }
#tooltip b { display: block; margin-bottom: 2px; }
#tooltip table { border-spacing: 0; }
#tooltip td:first-child { color: var(--faint); padding-right: 14px; }
#tooltip td:last-child { text-align: right; }
[hidden] { display: none !important; }
)css";

std::string variables(std::string_view ThemeColor::*shade) {
  std::string text;
  for (const ThemeColor& color : theme::kColors) text += fmt::format(" --{}: {};", color.name, color.*shade);
  return text;
}

}  // namespace

std::string timeline_style() {
  return fmt::format(
      "\n:root {{ color-scheme: light dark; --paleness: {}; --ink-paleness: {};{} }}\n"
      "@media (prefers-color-scheme: dark) {{ :root {{{} }} }}{}",
      fmt::join(theme::kPaleness, " "), theme::kInkPaleness, variables(&ThemeColor::light),
      variables(&ThemeColor::dark), kRules);
}

const std::string_view kTimelineBody = R"html(
<header>
  <h1>Sluice timeline</h1>
  <label id="iteration-label">iteration <select id="iteration"></select></label>
  <button id="reset" type="button">Reset view</button>
  <div class="legend">
    <span style="--swatch: var(--forward)">F forward</span>
    <span style="--swatch: var(--backward)">B whole backward</span>
    <span style="--swatch: var(--input)">B input gradient</span>
    <span style="--swatch: var(--weight)">W weight gradient</span>
    <span id="shades" style="--swatch: linear-gradient(90deg, var(--faint), var(--line))" hidden>paler: later
      chunk of the stage</span>
  </div>
  <div class="hint">wheel: zoom &middot; drag: pan &middot; double click: reset</div>
</header>
<main id="methods"></main>
<div id="tooltip" role="status" hidden></div>
)html";

}  // namespace sluice::trace
