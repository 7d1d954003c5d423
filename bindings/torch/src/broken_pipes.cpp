#include "sluice/torch/broken_pipes.hpp"

#include <ctime>

namespace sluice::gpt {

BrokenPipesAreErrors::BrokenPipesAreErrors() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  sigset_t waiting;
  sigpending(&waiting);
  if (sigismember(&waiting, SIGPIPE) == 1) return;
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &pipe_, &before);
  ours_ = sigismember(&before, SIGPIPE) == 0;
}

BrokenPipesAreErrors::~BrokenPipesAreErrors() {
  if (!ours_) return;
  const timespec at_once{};
  while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_UNBLOCK, &pipe_, nullptr);
}

}  // namespace sluice::gpt
