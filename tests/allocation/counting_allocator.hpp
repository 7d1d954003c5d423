#pragma once

#include <cstdint>

namespace sluice::test {

/// Counts what this thread allocates with `new` while the object lives. One at a time.
///
/// Needs counting_allocator.cpp in the executable, which replaces the global operators.
class CountedAllocations {
 public:
  CountedAllocations() noexcept;
  ~CountedAllocations();
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;

  [[nodiscard]] std::uint64_t count() const noexcept;
};

}  // namespace sluice::test
