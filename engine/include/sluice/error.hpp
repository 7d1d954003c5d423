#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "sluice/task.hpp"

namespace sluice {

/// Base of every error Sluice throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A configuration refused before anything starts. `what()` begins with the field's name.
class ConfigError : public Error {
 public:
  ConfigError(std::string field, const std::string& reason)
      : Error(field + ": " + reason), field_(std::move(field)) {}

  [[nodiscard]] const std::string& field() const noexcept { return field_; }

 private:
  std::string field_;
};

/// A task failed: an exception in user code, a wrong shape, a device error.
class TaskError : public Error {
 public:
  TaskError(std::uint32_t rank, Task task, const std::string& cause)
      : Error("rank " + std::to_string(rank) + ", " + to_string(task) + ": " + cause),
        rank_(rank),
        task_(task) {}

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] Task task() const noexcept { return task_; }

 private:
  std::uint32_t rank_;
  Task task_;
};

/// A message that cannot belong to the run: unknown edge, impossible iteration, sent twice.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

/// Nothing happened for longer than the watchdog allows; the message is the stall report.
class StallError : public Error {
 public:
  using Error::Error;
};

/// This rank stopped because another one failed first.
class Aborted : public Error {
 public:
  using Error::Error;
};

}  // namespace sluice
