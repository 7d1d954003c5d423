#include "calm_threads.hpp"

#include <sched.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace sluice::gpt {

void calm_gloo_threads() {
  std::error_code ignored;  // a thread may end meanwhile
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    if (!name.starts_with("gloo_tcp_loop")) continue;
    const std::string digits = entry.path().filename();
    pid_t thread = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), thread);
    const sched_param normal{};
    (void)::sched_setscheduler(thread, SCHED_BATCH, &normal);
  }
}

}  // namespace sluice::gpt
