#include "address_space.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "controls.hpp"
#include "fake_cuda.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t kFreedKept = 4096;

bool among(MemoryKind kind, const std::vector<MemoryKind>& kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static auto& space = *new AddressSpace;
  return space;
}

void AddressSpace::add(std::shared_ptr<Allocation> memory) {
  const std::lock_guard lock(mutex_);
  const char* address = memory->address();
  by_address_.emplace(address, std::move(memory));
}

std::shared_ptr<Allocation> AddressSpace::remove(const void* address, const std::vector<MemoryKind>& kinds) {
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(static_cast<const char*>(address));
  if (found == by_address_.end() || !among(found->second->kind(), kinds)) return nullptr;
  std::shared_ptr<Allocation> memory = std::move(found->second);
  by_address_.erase(found);
  if (memory->on_device()) keep_address(*memory);
  return memory;
}

void AddressSpace::keep_address(Allocation& memory) {
  memory.disown_address();
  freed_.emplace(memory.address(), memory.size());
  freed_order_.push_back({memory.address(), whole_pages(memory.size())});
  if (freed_order_.size() <= kFreedKept) return;
  const Freed oldest = freed_order_.front();
  freed_order_.pop_front();
  freed_.erase(oldest.address);
  munmap(oldest.address, oldest.bytes);
}

std::optional<Location> AddressSpace::find(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  const std::shared_lock lock(mutex_);
  auto found = by_address_.upper_bound(at);
  if (found == by_address_.begin()) return std::nullopt;
  --found;
  const auto offset = static_cast<std::size_t>(at - found->first);
  if (offset >= found->second->size()) return std::nullopt;
  return Location{found->second, offset};
}

bool AddressSpace::freed(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  const std::shared_lock lock(mutex_);
  auto found = freed_.upper_bound(at);
  if (found == freed_.begin()) return false;
  --found;
  return static_cast<std::size_t>(at - found->first) < found->second;
}

std::size_t AddressSpace::count(const std::vector<MemoryKind>& kinds) const {
  const std::shared_lock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      by_address_.begin(), by_address_.end(),
      [&](const auto& entry) { return among(entry.second->kind(), kinds) && entry.second->live(); }));
}

std::uint64_t AddressSpace::device_bytes(int device) const {
  const std::shared_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [address, memory] : by_address_) {
    const bool own = among(memory->kind(), {MemoryKind::Device, MemoryKind::Graph, MemoryKind::Nccl});
    if (own && memory->live() && memory->device_index() == device) bytes += memory->size();
  }
  return bytes;
}

std::string misuse(const Location& location, std::size_t bytes) {
  if (!location.memory->live()) return location.memory->name() + " is used where it is not allocated";
  if (bytes > location.room()) {
    return std::to_string(bytes) + " bytes at offset " + std::to_string(location.offset) +
           " reach past the end of " + location.memory->name();
  }
  return "";
}

}  // namespace fakecuda

void* fakecuda_host(const void* device_address) {
  const fakecuda::Hidden hidden;
  const auto location = fakecuda::AddressSpace::instance().find(device_address);
  return location && location->memory->on_device() ? location->bytes() : nullptr;
}
