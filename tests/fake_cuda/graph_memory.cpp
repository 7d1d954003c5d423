#include "graph_memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "address_space.hpp"

namespace fakecuda::graph_memory {
namespace {

struct Book {
  std::mutex mutex;
  std::map<int, Usage> by_device;
  std::set<const Allocation*> reserved;
};

Book& book() {
  static auto& value = *new Book;
  return value;
}

void raise(std::uint64_t& now, std::uint64_t& high, std::uint64_t bytes) {
  now += bytes;
  high = std::max(high, now);
}

void forget(const Allocation& memory) {
  AddressSpace::instance().remove(memory.address(), {MemoryKind::Graph});
  const std::lock_guard lock(book().mutex);
  Usage& usage = book().by_device[memory.device_index()];
  if (book().reserved.erase(&memory) > 0) usage.reserved -= memory.size();
  if (memory.live()) usage.used -= memory.size();
}

}  // namespace

std::shared_ptr<Allocation> plan(std::size_t bytes, int device) {
  auto memory = Allocation::device(bytes, device, MemoryKind::Graph);
  if (memory == nullptr) return nullptr;
  AddressSpace::instance().add(memory);
  Allocation* raw = memory.get();
  // The address space keeps it too, so the graphs' own share is counted apart.
  return {raw, [memory](Allocation*) { forget(*memory); }};
}

void reserve(const Allocation& memory) {
  const std::lock_guard lock(book().mutex);
  if (!book().reserved.insert(&memory).second) return;
  Usage& usage = book().by_device[memory.device_index()];
  raise(usage.reserved, usage.reserved_high, memory.size());
}

void begin(Allocation& memory) {
  reserve(memory);
  memory.begin();
  const std::lock_guard lock(book().mutex);
  Usage& usage = book().by_device[memory.device_index()];
  raise(usage.used, usage.used_high, memory.size());
}

void end(Allocation& memory) {
  memory.end();
  const std::lock_guard lock(book().mutex);
  book().by_device[memory.device_index()].used -= memory.size();
}

Usage usage(int device) {
  const std::lock_guard lock(book().mutex);
  return book().by_device[device];
}

void reset_high_marks(int device) {
  const std::lock_guard lock(book().mutex);
  Usage& usage = book().by_device[device];
  usage.used_high = usage.used;
  usage.reserved_high = usage.reserved;
}

void trim(int device) {
  const std::lock_guard lock(book().mutex);
  for (auto at = book().reserved.begin(); at != book().reserved.end();) {
    const bool idle = (*at)->device_index() == device && !(*at)->live();
    if (idle) book().by_device[device].reserved -= (*at)->size();
    at = idle ? book().reserved.erase(at) : std::next(at);
  }
}

}  // namespace fakecuda::graph_memory
