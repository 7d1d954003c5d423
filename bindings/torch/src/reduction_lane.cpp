#include "reduction_lane.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::size_t elements_of(const std::vector<at::Tensor>& tensors) {
  std::size_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += static_cast<std::size_t>(tensor.numel());
  return elements;
}

}  // namespace

ReductionLane::ReductionLane(ProcessGroup& group, std::vector<std::vector<at::Tensor>> gradients)
    : group_(group),
      gradients_(std::move(gradients)),
      is_final_(gradients_.size()),
      reduced_(gradients_.size()) {
  std::size_t most = 0;
  for (const std::vector<at::Tensor>& chunk : gradients_) most = std::max(most, elements_of(chunk));
  values_.resize(most);
  thread_ = std::thread([this] { work(); });
}

ReductionLane::~ReductionLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReductionLane::begin() {
  {
    const std::lock_guard lock(mutex_);
    is_final_.assign(gradients_.size(), false);
    reduced_ = 0;
  }
  changed_.notify_all();
}

void ReductionLane::add(std::size_t position) {
  {
    const std::lock_guard lock(mutex_);
    is_final_.at(position) = true;
  }
  changed_.notify_all();
}

void ReductionLane::wait() {
  const auto started = SteadyClock::now();
  std::unique_lock lock(mutex_);
  const bool ended = changed_.wait_for(lock, 2 * group_.timeout(),
                                       [this] { return error_ != nullptr || reduced_ == gradients_.size(); });
  exposed_ += SteadyClock::now() - started;
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (ended) return;
  throw StallError("the gradients of " + std::to_string(gradients_.size() - reduced_) +
                   " chunks were not reduced over the replicas in time");
}

Duration ReductionLane::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

Duration ReductionLane::exposed() const {
  const std::lock_guard lock(mutex_);
  return exposed_;
}

void ReductionLane::work() {
  at::set_num_threads(1);
  try {
    while (await_next()) {
      const auto started = SteadyClock::now();
      reduce(gradients_[reduced_]);
      {
        const std::lock_guard lock(mutex_);
        busy_ += SteadyClock::now() - started;
        ++reduced_;
      }
      changed_.notify_all();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
  }
}

/// Blocks until the next chunk of the order is final; false at the end.
bool ReductionLane::await_next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || (reduced_ < gradients_.size() && is_final_[reduced_]); });
  return !stop_;
}

void ReductionLane::reduce(const std::vector<at::Tensor>& gradients) {
  float* place = values_.data();
  for (const at::Tensor& gradient : gradients) {
    place = std::copy_n(gradient.const_data_ptr<float>(), gradient.numel(), place);
  }
  group_.all_reduce_sum({values_.data(), elements_of(gradients)});
  const float* sums = values_.data();
  for (const at::Tensor& gradient : gradients) {
    std::copy_n(sums, gradient.numel(), gradient.mutable_data_ptr<float>());
    sums += gradient.numel();
  }
}

}  // namespace sluice::gpt
