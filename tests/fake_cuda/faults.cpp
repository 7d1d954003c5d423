#include "faults.hpp"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "controls.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace {

struct Planned {
  int calls_left;
  cudaError_t code;
};

struct Plan {
  std::mutex mutex;
  std::map<std::string, Planned, std::less<>> by_function;
  std::atomic<bool> any{false};
};

/// `function:nth:code`, separated by commas.
void read_setting(Plan& plan) {
  const char* const setting = std::getenv("FAKECUDA_FAIL");
  std::istringstream items(setting != nullptr ? setting : "");
  std::string function;
  while (std::getline(items, function, ':')) {
    std::string calls;
    std::string code;
    std::getline(items, calls, ':');
    std::getline(items, code, ',');
    plan.by_function[function] = {std::atoi(calls.c_str()),
                                  static_cast<cudaError_t>(std::atoi(code.c_str()))};
    plan.any.store(true);
  }
}

Plan& plan() {
  static Plan& value = [&]() -> Plan& {
    auto& made = *new Plan;
    read_setting(made);
    return made;
  }();
  return value;
}

}  // namespace

cudaError_t planned_failure(const char* function) {
  if (!plan().any.load()) return cudaSuccess;
  const std::lock_guard lock(plan().mutex);
  const auto found = plan().by_function.find(function);
  if (found == plan().by_function.end() || --found->second.calls_left > 0) return cudaSuccess;
  const cudaError_t code = found->second.code;
  plan().by_function.erase(found);
  return code;
}

void forget_planned_failures() {
  const std::lock_guard lock(plan().mutex);
  plan().by_function.clear();
  plan().any.store(false);
}

}  // namespace fakecuda

void fakecuda_fail(const char* function, int nth, cudaError_t code) {
  const fakecuda::Hidden hidden;
  auto& plan = fakecuda::plan();
  const std::lock_guard lock(plan.mutex);
  plan.by_function[function] = {nth, code};
  plan.any.store(true);
}
