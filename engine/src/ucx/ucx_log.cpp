#include "ucx_log.hpp"

#include <ucs/debug/log_def.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace sluice::ucx {
namespace {

std::atomic<int> quiet{0};

ucs_log_func_rc_t write(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                        ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                        const char* message, va_list arguments) {
  if (level > UCS_LOG_LEVEL_FATAL && quiet.load(std::memory_order_relaxed) > 0) return UCS_LOG_FUNC_RC_STOP;
  if (std::getenv("UCX_LOG_FILE") != nullptr) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 1024> text{};
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text.data(), text.size(), message, copy);
  va_end(copy);
  std::fprintf(stderr, "UCX %s: %s\n", ucs_log_level_names[level], text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void log_to_stderr() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(write); });
}

QuietUcx::QuietUcx() noexcept { quiet.fetch_add(1, std::memory_order_relaxed); }
QuietUcx::~QuietUcx() { quiet.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace sluice::ucx
