#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "handles.hpp"
#include "point.hpp"

namespace fakecuda {

struct Capture;

/// What processes that share an event look at.
struct SharedRecords {
  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> reached{0};
};

/// The shared page of an interprocess event.
class SharedEvent {
 public:
  static std::shared_ptr<SharedEvent> create();
  static std::shared_ptr<SharedEvent> open(int file);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] SharedRecords& records() const { return *records_; }

 private:
  explicit SharedEvent(int file) : file_(file) {}
  bool map();

  int file_;
  SharedRecords* records_ = nullptr;
};

/// One recording of an event: what a wait that was enqueued then waits for, whatever becomes of the event.
struct Recording {
  std::shared_ptr<Point> point;  ///< null if never recorded, or recorded by another process
  std::shared_ptr<SharedEvent> shared;
  std::uint64_t version = 0;

  [[nodiscard]] bool reached() const;
  void wait() const;
};

class Event {
 public:
  Event(unsigned flags, std::shared_ptr<SharedEvent> shared) : flags_(flags), shared_(std::move(shared)) {}

  [[nodiscard]] bool has_times() const { return (flags_ & cudaEventDisableTiming) == 0U; }
  [[nodiscard]] const std::shared_ptr<SharedEvent>& shared() const { return shared_; }

  /// The latest.
  [[nodiscard]] Recording recording() const;
  void recorded(const Recording& recording);

  /// The capture it was recorded in last, null if none or over, and the nodes it stands for: guarded by the
  /// captures' mutex.
  std::weak_ptr<Capture> capture;
  std::vector<std::size_t> capture_tail;

 private:
  unsigned flags_;
  std::shared_ptr<SharedEvent> shared_;
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_;
  std::uint64_t own_version_ = 0;
};

using Events = Handles<Event, cudaEvent_t>;
Events& events();

}  // namespace fakecuda
