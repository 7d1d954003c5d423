#include "call_log.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::nvtx_probe {

CallLog& CallLog::instance() {
  // Never closed: calls may come until the process ends.
  static CallLog& log = *new CallLog;
  return log;
}

CallLog::CallLog() {
  const char* path = std::getenv("NVTX_PROBE_OUT");
  descriptor_ = path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

void CallLog::write(nlohmann::json line) noexcept {
  line["process"] = getpid();
  line["thread"] = syscall(SYS_gettid);
  line["time_ns"] = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  // In one piece, at the end of the file. What cannot be written is missed by whoever reads it.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, text.data(), text.size());
}

}  // namespace sluice::nvtx_probe
