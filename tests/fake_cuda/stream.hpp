#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "handles.hpp"
#include "point.hpp"
#include "work.hpp"

namespace fakecuda {

struct Capture;

/// One worker thread that runs what is put on the stream, in order.
class Stream {
 public:
  static std::shared_ptr<Stream> start(int device, unsigned flags, int priority);

  /// What this thread did before is seen by the operation.
  /// @return the point after it
  std::shared_ptr<Point> push(std::shared_ptr<const Work> work);
  /// The point after what was pushed last; null if nothing ever was.
  [[nodiscard]] std::shared_ptr<Point> last() const;
  /// The worker ends after what was pushed so far.
  void close();
  void hang(bool hung);

  [[nodiscard]] bool waits_for_legacy() const { return (flags_ & cudaStreamNonBlocking) == 0U; }
  [[nodiscard]] unsigned flags() const { return flags_; }
  [[nodiscard]] int priority() const { return priority_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// The capture it takes part in, and the nodes that its next one follows: guarded by the captures' mutex.
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> capture_tail;

 private:
  struct Operation {
    std::shared_ptr<const Work> work;
    std::shared_ptr<Point> after;
  };

  Stream(int device, unsigned flags, int priority);
  void run();
  bool next(Operation& operation);

  int device_;
  unsigned flags_;
  int priority_;
  std::uint64_t id_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> operations_;
  std::shared_ptr<Point> last_;
  bool closed_ = false;
  bool hung_ = false;
};

using Streams = Handles<Stream, cudaStream_t>;
Streams& streams();
/// The stream behind a handle: the device's legacy stream for null; null if there is none.
[[nodiscard]] std::shared_ptr<Stream> find_stream(cudaStream_t handle);
[[nodiscard]] std::shared_ptr<Stream> legacy_stream(int device);
/// Waits for all that was enqueued on a device.
void wait_for_device(int device);

/// Makes what is pushed on the stream next wait for the legacy stream, or the reverse, where they do.
void order_with_legacy(Stream& stream);

}  // namespace fakecuda
