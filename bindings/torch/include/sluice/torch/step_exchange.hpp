#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::gpt {

/// Bytes one rank gave to others; shared, so that handing them over copies nothing.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// What the ranks of a run tell each other at the end of a training step: gradient norms for
/// clipping and the two gradients of tied embeddings. Calls block, within bounds; all ranks make the
/// same calls in the same order.
class StepExchange {
 public:
  virtual ~StepExchange() = default;

  /// Every rank gives its bytes and gets everybody's, in rank order.
  /// @throws Aborted if another rank failed, StallError if a rank does not come
  virtual std::vector<SharedBytes> all_gather(std::uint32_t rank, std::span<const std::byte> own) = 0;

  /// Two ranks swap bytes; the others do not take part.
  /// @throws Aborted if another rank failed, StallError if the peer does not come
  virtual SharedBytes swap_with(std::uint32_t rank, std::uint32_t peer, std::span<const std::byte> own) = 0;
};

/// Exchange between ranks that are threads of one process.
class InProcessExchange final : public StepExchange {
 public:
  /// @param timeout longest wait for one rank
  explicit InProcessExchange(std::uint32_t ranks, std::chrono::nanoseconds timeout = std::chrono::minutes(2));

  std::vector<SharedBytes> all_gather(std::uint32_t rank, std::span<const std::byte> own) override;
  SharedBytes swap_with(std::uint32_t rank, std::uint32_t peer, std::span<const std::byte> own) override;

  /// Ends every current and later call with `Aborted`. Called by a rank that failed, from any thread.
  void abort(const std::string& cause);

 private:
  using Way = std::pair<std::uint32_t, std::uint32_t>;  // from, to

  void post(Way way, SharedBytes bytes);
  SharedBytes take(Way way);

  std::uint32_t ranks_;
  std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Way, std::deque<SharedBytes>> posted_;
  bool aborted_ = false;
  std::string cause_;
};

}  // namespace sluice::gpt
