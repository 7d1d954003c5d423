#include <cstdlib>
#include <string>

#include "controls.hpp"
#include "report.hpp"

namespace {

/// What is left when the process ends is a misuse of a program that should clean up.
void report_leaks() {
  for (const char* const kind : {"allocations", "host allocations", "streams", "events", "graphs",
                                 "executable graphs", "opened handles", "communicators", "windows"}) {
    if (const std::size_t left = fakecuda_live(kind); left > 0)
      fakecuda::report(std::to_string(left) + " " + kind + " were not destroyed");
  }
}

// Before the program's own handlers and so behind them.
[[maybe_unused]] const bool kRegistered =
    std::getenv("FAKECUDA_LEAKS") != nullptr && std::atexit(report_leaks) == 0;

}  // namespace
