#pragma once

#include <csignal>

namespace sluice::gpt {

/// While it exists, a write of this thread to a peer that is gone returns an error and does not end the
/// process (SIGPIPE): gloo writes without the flag that asks for this. Threads that are started meanwhile
/// stay so.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors();
  ~BrokenPipesAreErrors();
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t pipe_{};
  /// Blocked already, or waiting from before: not ours to take back.
  bool ours_ = false;
};

}  // namespace sluice::gpt
