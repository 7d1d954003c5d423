#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "allocation.hpp"

namespace fakecuda {

/// Where an address lies.
struct Location {
  std::shared_ptr<Allocation> memory;
  std::size_t offset = 0;
  [[nodiscard]] char* bytes() const { return memory->bytes() + offset; }
  [[nodiscard]] std::size_t room() const { return memory->size() - offset; }
};

/// All memory the runtime knows, and for a while the device addresses that it knew, which are not used again.
class AddressSpace {
 public:
  static AddressSpace& instance();

  void add(std::shared_ptr<Allocation> memory);
  /// Takes the allocation that begins there, if there is one of such a kind.
  std::shared_ptr<Allocation> remove(const void* address, const std::vector<MemoryKind>& kinds);

  /// None if the address belongs to no allocation.
  [[nodiscard]] std::optional<Location> find(const void* address) const;
  /// Whether the address belonged to device memory that was freed.
  [[nodiscard]] bool freed(const void* address) const;
  [[nodiscard]] std::size_t count(const std::vector<MemoryKind>& kinds) const;
  /// Of device memory that is there.
  [[nodiscard]] std::uint64_t device_bytes(int device) const;

 private:
  struct Freed {
    char* address;
    std::size_t bytes;
  };
  void keep_address(Allocation& memory);

  mutable std::shared_mutex mutex_;
  std::map<const char*, std::shared_ptr<Allocation>> by_address_;
  std::map<const char*, std::size_t> freed_;
  std::deque<Freed> freed_order_;
};

/// What is wrong with using `bytes` at the location: empty if nothing.
[[nodiscard]] std::string misuse(const Location& location, std::size_t bytes);

}  // namespace fakecuda
