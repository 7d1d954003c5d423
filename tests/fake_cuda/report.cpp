#include "report.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "controls.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace {

constexpr int kExitStatus = 67;

std::atomic<std::size_t> reports{0};

void fail_the_process() {
  if (reports.load() == 0) return;
  std::fflush(nullptr);
  _exit(kExitStatus);
}

}  // namespace

void report(const std::string& message) {
  const Hidden hidden;
  static const int kRegistered = std::atexit(fail_the_process);
  static_cast<void>(kRegistered);
  ++reports;
  std::fprintf(stderr, "fakecuda: %s\n", message.c_str());
}

}  // namespace fakecuda

std::size_t fakecuda_take_reports() {
  const fakecuda::Hidden hidden;
  return fakecuda::reports.exchange(0);
}
