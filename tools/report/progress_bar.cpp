#include "report/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sluice::tools {
namespace {

constexpr std::uint64_t kWidth = 24;
constexpr auto kBetweenLines = std::chrono::seconds(2);

}  // namespace

ProgressBar::ProgressBar(std::string what, std::uint64_t total, bool shown)
    : what_(std::move(what)), total_(total), shown_(shown), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void ProgressBar::show(std::uint64_t done, const std::string& status) {
  if (!shown_) return;
  if (!terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (done != total_ && now - last_ < kBetweenLines) return;
    last_ = now;
    fmt::print(stderr, "{} {}/{}  {}\n", what_, done, total_, status);
    return;
  }
  const std::uint64_t filled = total_ > 0 ? kWidth * done / total_ : kWidth;
  fmt::print(stderr, "\r\033[K{} {:#<{}}{:.<{}} {}/{}  {}", what_, "", filled, "", kWidth - filled, done,
             total_, status);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace sluice::tools
