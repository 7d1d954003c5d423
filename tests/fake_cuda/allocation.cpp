#include "allocation.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "report.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kNew = 0xCD;
constexpr int kFreed = 0xDD;
constexpr char kRest = '\x5B';

char* reserve(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

bool map_at(char* at, std::size_t bytes, int flags, int file, std::size_t offset) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | flags, file, static_cast<off_t>(offset)) !=
         MAP_FAILED;
}

}  // namespace

std::size_t whole_pages(std::size_t bytes) { return std::max(kPage, (bytes + kPage - 1) / kPage * kPage); }

Allocation::Allocation(MemoryKind kind, std::size_t bytes, int device)
    : kind_(kind), size_(bytes), device_(device) {}

std::shared_ptr<Allocation> Allocation::device(std::size_t bytes, int device, MemoryKind kind) {
  const int file = memfd_create("fakecuda", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  std::shared_ptr<Allocation> made(new Allocation(kind, bytes, device));
  made->file_ = file;
  if (ftruncate(file, static_cast<off_t>(whole_pages(bytes) + kPage)) != 0 || !made->map_device(file))
    return nullptr;
  made->fill_rest();
  if (kind == MemoryKind::Graph) {
    made->live_ = false;
  } else {
    made->begin();
  }
  return made;
}

std::shared_ptr<Allocation> Allocation::peer(int file, std::size_t bytes, int device) {
  std::shared_ptr<Allocation> made(new Allocation(MemoryKind::Peer, bytes, device));
  made->file_ = file;
  return made->map_device(file) ? made : nullptr;
}

std::shared_ptr<Allocation> Allocation::host(std::size_t bytes) {
  std::shared_ptr<Allocation> made(new Allocation(MemoryKind::Host, bytes, -1));
  if (!made->map_host()) return nullptr;
  made->fill_rest();
  made->begin();
  return made;
}

std::shared_ptr<Allocation> Allocation::registered(void* memory, std::size_t bytes) {
  std::shared_ptr<Allocation> made(new Allocation(MemoryKind::Registered, bytes, -1));
  made->address_ = made->view_ = static_cast<char*>(memory);
  return made;
}

bool Allocation::map_device(int file) {
  const std::size_t pages = whole_pages(size_);
  address_ = reserve(pages);
  // Guard, data, guard, activity.
  mapped_bytes_ = pages + 3 * kPage;
  mapped_ = reserve(mapped_bytes_);
  if (address_ == nullptr || mapped_ == nullptr) return false;
  view_ = mapped_ + kPage;
  char* activity = view_ + pages + kPage;
  activity_ = reinterpret_cast<Activity*>(activity);
  static_assert(sizeof(Activity) <= kPage);
  return map_at(view_, pages, MAP_SHARED, file, 0) && map_at(activity, kPage, MAP_SHARED, file, pages);
}

bool Allocation::map_host() {
  const std::size_t pages = whole_pages(size_);
  mapped_bytes_ = pages + 2 * kPage;
  mapped_ = reserve(mapped_bytes_);
  if (mapped_ == nullptr) return false;
  address_ = view_ = mapped_ + kPage;
  owns_address_ = false;
  return map_at(view_, pages, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Allocation::~Allocation() {
  if (owns_address_ && on_device() && address_ != nullptr) munmap(address_, whole_pages(size_));
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  if (file_ >= 0) close(file_);
}

bool Allocation::on_device() const { return kind_ != MemoryKind::Host && kind_ != MemoryKind::Registered; }

std::string Allocation::name() const {
  std::ostringstream text;
  text << (on_device() ? "device" : "pinned") << " memory of " << size_ << " bytes at "
       << static_cast<const void*>(address_);
  return text.str();
}

void Allocation::fill_rest() { std::fill(view_ + size_, view_ + whole_pages(size_), kRest); }

bool Allocation::overrun() const {
  return std::any_of(view_ + size_, view_ + whole_pages(size_), [](char byte) { return byte != kRest; });
}

void Allocation::begin() {
  {
    const Exposed exposed;
    std::memset(view_, kNew, size_);
  }
  live_.store(true);
}

void Allocation::end() {
  live_.store(false);
  if (kind_ == MemoryKind::Peer || kind_ == MemoryKind::Registered) return;
  if (overrun()) report(name() + " was written past its end");
  const Exposed exposed;
  std::memset(view_, kFreed, size_);
}

}  // namespace fakecuda
