#include "counting_allocator.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace sluice::test {
namespace {

thread_local bool armed = false;
thread_local std::uint64_t allocations = 0;

void* count_and_allocate(std::size_t bytes, std::size_t alignment) {
  if (armed) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                              : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

CountedAllocations::CountedAllocations() noexcept {
  allocations = 0;
  armed = true;
}

CountedAllocations::~CountedAllocations() { armed = false; }

std::uint64_t CountedAllocations::count() const noexcept { return allocations; }

}  // namespace sluice::test

// The array and the non-throwing forms call these.
void* operator new(std::size_t bytes) { return sluice::test::count_and_allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return sluice::test::count_and_allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
