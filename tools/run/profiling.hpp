#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "option/profile_options.hpp"
#include "sluice/observer.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::tools {

class ProcessSession;

/// Tells profilers of the runs of a command, as its options ask.
class Profiling {
 public:
  /// @param options checked
  explicit Profiling(const ProfileOptions& options);
  ~Profiling();
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

  /// Around each iteration of the command, on the thread that starts them.
  void begins(std::uint64_t iteration);
  void ended(std::uint64_t iteration);

  /// One observer a stage, null for stages of other processes; nothing where tasks are not annotated. Call on
  /// the thread that makes the run.
  /// @param pipeline and the profiling outlive the observers
  /// @param session where the ranks are processes, else null
  /// @throws ConfigError naming the field
  [[nodiscard]] std::vector<std::unique_ptr<Observer>> observers(const Pipeline& pipeline,
                                                                 const std::string& method,
                                                                 ProcessSession* session) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::tools
