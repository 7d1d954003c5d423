#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/torch/process_group.hpp"

namespace sluice::gpt {

/// Adds up gradients over the replicas, beside the tasks of the rank: one chunk after the other, in an
/// order that is the same on every replica, each as soon as its gradients are final here.
class ReductionLane {
 public:
  /// Starts the lane's thread.
  /// @param group of the replicas; the lane's own from `begin` to the end of `wait`
  /// @param gradients contiguous, of each chunk in the order in which chunks are reduced; outlive the lane
  ReductionLane(ProcessGroup& group, std::vector<std::vector<at::Tensor>> gradients);
  /// Ends the thread; a reduction under way is waited for, within the group's bound.
  ~ReductionLane();
  ReductionLane(const ReductionLane&) = delete;
  ReductionLane& operator=(const ReductionLane&) = delete;

  /// A training iteration begins.
  void begin();
  /// A chunk's gradients are complete on this rank and are not touched until `wait` returns. From any thread.
  /// @param position of the chunk in the order
  void add(std::size_t position);
  /// Blocks until all chunks are reduced.
  /// @throws what the lane met; StallError if a chunk was not added, within twice the group's bound
  void wait();

  /// Time the lane spent in reductions, waiting for other replicas included.
  [[nodiscard]] Duration busy() const;
  /// Time callers spent in `wait`.
  [[nodiscard]] Duration exposed() const;

 private:
  void work();
  [[nodiscard]] bool await_next();
  void reduce(const std::vector<at::Tensor>& gradients);

  ProcessGroup& group_;
  std::vector<std::vector<at::Tensor>> gradients_;
  std::vector<float> values_;  ///< of one chunk, side by side
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> is_final_;
  std::size_t reduced_;
  std::exception_ptr error_;
  bool stop_ = false;
  Duration busy_{};
  Duration exposed_{};
  std::thread thread_;
};

}  // namespace sluice::gpt
