#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/torch/step_exchange.hpp"

namespace sluice::gpt {

class GlooDevice;
struct StoreHandle;

/// Some ranks of a run, each a process, that compute together over PyTorch's gloo.
///
/// Calls block until the group's other ranks make the same call, within the group's bound; all ranks make
/// the same calls in the same order, one at a time. A group of one talks to nobody. Calls
/// throw StallError if the others do not come in time and Aborted if one of them has left; afterwards the
/// group is of no use.
class ProcessGroup {
 public:
  /// What identifies a group to its ranks and to people.
  struct Members {
    /// As in `tensor-parallel group`.
    std::string name;
    /// Ranks of the run, in the group's order.
    std::vector<std::uint32_t> ranks;
    /// This process's place among them.
    std::uint32_t index = 0;
  };

  /// Connects the group; all its ranks make this call.
  /// @throws Error naming the group if they do not come within the timeout
  ProcessGroup(Members members, const StoreHandle& store, const GlooDevice& device, Duration timeout);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] std::uint32_t index() const noexcept { return members_.index; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(members_.ranks.size());
  }
  /// Longest wait for the others in one call.
  [[nodiscard]] Duration timeout() const noexcept { return timeout_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const noexcept { return members_.ranks; }

  /// Replaces the values by their sums over the group, each of which is computed once in an order
  /// that depends on the group and the number of values only: every rank and every run gets the same bits.
  void all_reduce_sum(std::span<float> values);

  /// Every rank gives its bytes, which may differ in number, and gets everybody's in the group's order.
  [[nodiscard]] std::vector<SharedBytes> all_gather(std::span<const std::byte> own);

  /// Two of the ranks swap bytes; the others do not take part.
  /// @param peer its place in the group
  [[nodiscard]] SharedBytes swap_with(std::uint32_t peer, std::span<const std::byte> own);

  void barrier();

 private:
  class Backend;
  template <typename Call>
  auto guarded(Call call);
  [[nodiscard]] std::string who() const;

  Members members_;
  Duration timeout_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace sluice::gpt
