#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "sluice/error.hpp"
#include "sluice/graphs/captured_task.hpp"

namespace sluice::graphs {

/// The work of a task cannot be captured, or a replay of it is wrong: which, why, and what to do.
class CaptureError : public Error {
 public:
  /// @param step what was tried, such as `capturing`
  /// @param code of the runtime; cudaSuccess where it refused nothing
  CaptureError(std::uint32_t rank, const CaptureKey& key, const std::string& step, cudaError_t code,
               const std::string& cause);

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] const CaptureKey& key() const noexcept { return key_; }
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// What was tried.
  [[nodiscard]] const std::string& step() const noexcept { return step_; }
  /// Without rank, task and advice.
  [[nodiscard]] const std::string& cause() const noexcept { return cause_; }

 private:
  std::uint32_t rank_;
  CaptureKey key_;
  cudaError_t code_;
  std::string step_;
  std::string cause_;
};

}  // namespace sluice::graphs
