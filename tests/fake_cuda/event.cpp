#include "event.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <thread>

#include "call.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

bool SharedEvent::map() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (page == MAP_FAILED) return false;
  records_ = static_cast<SharedRecords*>(page);
  return true;
}

std::shared_ptr<SharedEvent> SharedEvent::create() {
  const int file = memfd_create("fakecuda-event", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kPage) != 0) return nullptr;
  auto event = open(file);
  if (event != nullptr) new (event->records_) SharedRecords;
  return event;
}

std::shared_ptr<SharedEvent> SharedEvent::open(int file) {
  std::shared_ptr<SharedEvent> event(new SharedEvent(file));
  return event->map() ? event : nullptr;
}

SharedEvent::~SharedEvent() {
  if (records_ != nullptr) munmap(records_, kPage);
  close(file_);
}

bool Recording::reached() const {
  if (point != nullptr) return point->reached();
  return shared == nullptr || shared->records().reached.load() >= version;
}

void Recording::wait() const {
  if (point != nullptr) {
    point->wait();
    return;
  }
  while (!reached() && device_error() == cudaSuccess)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Recording Event::recording() const {
  const std::lock_guard lock(mutex_);
  Recording latest{point_, shared_, 0};
  if (shared_ != nullptr) {
    latest.version = shared_->records().recorded.load();
    // Another process may have recorded it since.
    if (latest.point != nullptr && latest.version > own_version_) latest.point = nullptr;
  }
  return latest;
}

void Event::recorded(const Recording& recording) {
  const std::lock_guard lock(mutex_);
  point_ = recording.point;
  own_version_ = recording.version;
}

Events& events() {
  static auto& handles = *new Events;
  return handles;
}

}  // namespace fakecuda
