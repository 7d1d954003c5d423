#include "thread_sanitizer.hpp"

#include <cstddef>

// Defined by ThreadSanitizer's runtime where the build has it.
extern "C" {
__attribute__((weak)) void AnnotateIgnoreReadsBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreReadsEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreWritesEnd(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreSyncBegin(const char* file, int line);
__attribute__((weak)) void AnnotateIgnoreSyncEnd(const char* file, int line);
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}

namespace fakecuda {
namespace {

/// Of __tsan_switch_to_fiber: the switch orders nothing.
constexpr unsigned kNoSync = 1;

/// Not seen either: fibers of one thread have it in common.
/// Read and written by fibers of the same real thread, which for ThreadSanitizer are others: so the functions
/// that do are not instrumented.
thread_local int hidden_depth = 0;

void begin_hiding() {
  if (AnnotateIgnoreSyncBegin == nullptr) return;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}

void end_hiding() {
  if (AnnotateIgnoreSyncEnd == nullptr) return;
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

}  // namespace

[[gnu::no_sanitize("thread")]] Hidden::Hidden() {
  if (hidden_depth++ == 0) begin_hiding();
}

[[gnu::no_sanitize("thread")]] Hidden::~Hidden() {
  if (--hidden_depth == 0) end_hiding();
}

[[gnu::no_sanitize("thread")]] Exposed::Exposed() : depth_(hidden_depth) {
  hidden_depth = 0;
  if (depth_ > 0) end_hiding();
}

[[gnu::no_sanitize("thread")]] Exposed::~Exposed() {
  hidden_depth = depth_;
  if (depth_ > 0) begin_hiding();
}

void release_edge(const void* address) {
  if (__tsan_release == nullptr) return;
  const Exposed exposed;
  __tsan_release(const_cast<void*>(address));
}

void acquire_edge(const void* address) {
  if (__tsan_acquire == nullptr) return;
  const Exposed exposed;
  __tsan_acquire(const_cast<void*>(address));
}

Fibers::~Fibers() {
  for (void* fiber : fibers_) __tsan_destroy_fiber(fiber);
}

void Fibers::make(std::size_t count) {
  if (__tsan_create_fiber == nullptr) return;
  // They follow what this thread did so far.
  const Exposed exposed;
  while (fibers_.size() < count) fibers_.push_back(__tsan_create_fiber(0));
}

void* Fibers::enter(std::size_t index) const {
  if (fibers_.empty()) return nullptr;
  void* caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fibers_[index], kNoSync);
  return caller;
}

void Fibers::leave(void* caller) {
  if (caller != nullptr) __tsan_switch_to_fiber(caller, kNoSync);
}

}  // namespace fakecuda
