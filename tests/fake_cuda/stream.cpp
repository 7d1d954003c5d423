#include "stream.hpp"

#include <atomic>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "device.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace {

/// Ends of the work of streams that were destroyed before it ended: the device is not idle before.
class LeftBehind {
 public:
  void add(int device, std::shared_ptr<Point> end) {
    const std::lock_guard lock(mutex_);
    std::erase_if(ends_, [](const auto& each) { return each.second->passed(); });
    if (!end->passed()) ends_.emplace_back(device, std::move(end));
  }
  [[nodiscard]] std::vector<std::pair<int, std::shared_ptr<Point>>> all() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<int, std::shared_ptr<Point>>> ends_;
};

LeftBehind& left_behind() {
  static auto& ends = *new LeftBehind;
  return ends;
}

}  // namespace

Stream::Stream(int device, unsigned flags, int priority)
    : device_(device), flags_(flags), priority_(priority) {
  static std::atomic<std::uint64_t> made{1};
  id_ = made.fetch_add(1);
}

std::shared_ptr<Stream> Stream::start(int device, unsigned flags, int priority) {
  std::shared_ptr<Stream> stream(new Stream(device, flags, priority));
  // Nobody waits for it to end: a stream may be destroyed while it has work.
  std::thread([stream] {
    const Hidden hidden;
    stream->run();
  }).detach();
  return stream;
}

std::shared_ptr<Point> Stream::push(std::shared_ptr<const Work> work) {
  auto after = std::make_shared<Point>();
  begin_use(*work);
  // The point's address stands for the operation until the worker has it.
  release_edge(after.get());
  const std::lock_guard lock(mutex_);
  last_ = after;
  operations_.push_back({std::move(work), after});
  changed_.notify_one();
  return after;
}

std::shared_ptr<Point> Stream::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
  if (last_ != nullptr) left_behind().add(device_, last_);
}

void Stream::hang(bool hung) {
  const std::lock_guard lock(mutex_);
  hung_ = hung;
  changed_.notify_one();
}

bool Stream::next(Operation& operation) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !hung_ && (closed_ || !operations_.empty()); });
  if (operations_.empty()) return false;
  operation = std::move(operations_.front());
  operations_.pop_front();
  return true;
}

void Stream::run() {
  set_current_device(device_);
  for (Operation operation; next(operation); operation = {}) {
    acquire_edge(operation.after.get());
    execute(*operation.work);
    end_use(*operation.work);
    operation.after->reach();
  }
}

Streams& streams() {
  static auto& handles = *new Streams;
  return handles;
}

std::shared_ptr<Stream> legacy_stream(int device) {
  static auto& mutex = *new std::mutex;
  static auto& by_device = *new std::map<int, std::shared_ptr<Stream>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Stream>& stream = by_device[device];
  if (stream == nullptr) stream = Stream::start(device, cudaStreamDefault, 0);
  return stream;
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    return legacy_stream(current_device());
  }
  return streams().find(handle);
}

void wait_for_device(int device) {
  auto all = streams().all();
  all.push_back(legacy_stream(device));
  for (const auto& stream : all) {
    if (stream->device() != device) continue;
    if (const auto last = stream->last()) last->wait();
  }
  for (const auto& [of, end] : left_behind().all()) {
    if (of == device) end->wait();
  }
}

namespace {

void wait_on(Stream& stream, std::shared_ptr<Point> point) {
  if (point == nullptr) return;
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeWaitEvent;
  work->label = "wait for the legacy stream's order";
  work->always = true;
  work->run = [point = std::move(point)] {
    point->wait();
    return cudaSuccess;
  };
  stream.push(std::move(work));
}

}  // namespace

void order_with_legacy(Stream& stream) {
  const auto legacy = legacy_stream(stream.device());
  if (&stream != legacy.get()) {
    if (stream.waits_for_legacy()) wait_on(stream, legacy->last());
    return;
  }
  for (const auto& other : streams().all()) {
    if (other->device() == stream.device() && other->waits_for_legacy()) wait_on(stream, other->last());
  }
}

}  // namespace fakecuda
