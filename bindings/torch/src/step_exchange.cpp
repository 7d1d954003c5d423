#include "sluice/torch/step_exchange.hpp"

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

SharedBytes copy_of(std::span<const std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

}  // namespace

InProcessExchange::InProcessExchange(std::uint32_t ranks, std::chrono::nanoseconds timeout)
    : ranks_(ranks), timeout_(timeout) {}

std::vector<SharedBytes> InProcessExchange::all_gather(std::uint32_t rank, std::span<const std::byte> own) {
  const SharedBytes shared = copy_of(own);
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank) post({rank, peer}, shared);
  }
  std::vector<SharedBytes> all(ranks_);
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) all[peer] = peer == rank ? shared : take({peer, rank});
  return all;
}

SharedBytes InProcessExchange::swap_with(std::uint32_t rank, std::uint32_t peer,
                                         std::span<const std::byte> own) {
  post({rank, peer}, copy_of(own));
  return take({peer, rank});
}

void InProcessExchange::abort(const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    cause_ = cause;
  }
  changed_.notify_all();
}

void InProcessExchange::post(Way way, SharedBytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    posted_[way].push_back(std::move(bytes));
  }
  changed_.notify_all();
}

SharedBytes InProcessExchange::take(Way way) {
  std::unique_lock lock(mutex_);
  std::deque<SharedBytes>& queue = posted_[way];
  const bool ended = changed_.wait_for(lock, timeout_, [&] { return aborted_ || !queue.empty(); });
  if (aborted_) throw Aborted("rank " + std::to_string(way.second) + " left the step: " + cause_);
  if (!ended) {
    throw StallError("rank " + std::to_string(way.second) + " waited for rank " + std::to_string(way.first) +
                     " at the end of the step for " +
                     std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count()) +
                     " ms");
  }
  SharedBytes bytes = std::move(queue.front());
  queue.pop_front();
  return bytes;
}

}  // namespace sluice::gpt
