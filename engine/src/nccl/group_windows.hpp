#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "hint_order.hpp"
#include "kernels/first_common.hpp"
#include "sluice/arbiter.hpp"

namespace sluice::nccl {

/// Where an attempt looks for what the group runs next: nowhere else can there be a task that all members
/// may run, and the round needs no more than the first of each window. The same on all members, whose asks
/// and ranges they all know.
class GroupWindows {
 public:
  /// @param arbiter the group's, in the group's focus
  /// @param allowed by all members
  /// @param common what the ranges of all members overlap in
  void look(const Arbiter& arbiter, PassMask allowed, const HintOrder& order, const RankRanges& common);

  [[nodiscard]] const kernels::Windows& windows() const noexcept { return windows_; }
  [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
  /// This rank's bytes of the windows.
  /// @param order the bytes of all tasks, `bytes` as many as `bytes()`
  void gather(const HintOrder& order, std::span<const std::uint8_t> all, std::span<std::uint8_t> bytes) const;
  /// The arbiter's choice among the first tasks of the windows, which are the group's best.
  /// @param arbiter as it was looked with; left as it is
  [[nodiscard]] std::optional<Task> choose(Arbiter& arbiter, const kernels::Firsts& firsts) const;

 private:
  struct First {
    std::uint32_t cls = 0;
    std::uint32_t rank = 0;
  };

  void add(std::uint32_t cls, const RankRange& range, PassMask passes);

  kernels::Windows windows_{};
  /// What each window begins with.
  std::array<First, kernels::kWindows> first_{};
  std::size_t used_ = 0;
  std::uint32_t bytes_ = 0;
};

}  // namespace sluice::nccl
