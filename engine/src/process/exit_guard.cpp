#include "sluice/process/exit_guard.hpp"

#include <unistd.h>

#include <string_view>

namespace sluice::process {
namespace {

void write_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

ExitGuard::ExitGuard(Duration bound) : bound_(bound), thread_([this] { watch(); }) {}

ExitGuard::~ExitGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ExitGuard::arm(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (!message_) message_ = message;
  }
  changed_.notify_all();
}

void ExitGuard::watch() {
  std::unique_lock lock(mutex_);
  while (!over_ && !message_) changed_.wait(lock);
  const auto deadline = std::chrono::steady_clock::now() + bound_;
  while (!over_ && std::chrono::steady_clock::now() < deadline) changed_.wait_until(lock, deadline);
  if (over_) return;
  write_error(*message_ + "\n");
  _exit(1);
}

}  // namespace sluice::process
