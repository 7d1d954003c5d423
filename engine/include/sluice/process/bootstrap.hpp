#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::process {

/// How processes that know nothing of each other but where to meet exchange their first words.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const noexcept = 0;
  /// A name or address of rank 0's host that every rank can connect to.
  [[nodiscard]] virtual const std::string& host() const noexcept = 0;

  /// Every rank gives its bytes and gets everybody's, in rank order. Blocks, within the bound the
  /// bootstrap was built with; all ranks make the same calls in the same order.
  /// @throws Error naming the ranks that did not come
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) = 0;
};

}  // namespace sluice::process
