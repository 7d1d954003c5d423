#include "put_line.hpp"

#include <fmt/format.h>

#include <thread>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::nccl {
namespace {

/// NCCL knows these only.
constexpr int kSignal = 0;
constexpr int kContext = 0;
constexpr unsigned kFlags = 0;

constexpr auto kLook = std::chrono::microseconds(50);

constexpr const char* kPutting = "putting into the other rank's window";
constexpr const char* kWaiting = "waiting for the other rank's signals";

}  // namespace

PutLine::PutLine(const Place& place, const ncclUniqueId& id, Duration patience)
    : library_(Library::get()),
      other_(place.end == kSender ? kReceiver : kSender),
      pinned_(kPutRingBytes, "the headers of an edge's messages"),
      ring_(kPutRingBytes, "the headers of an edge's messages"),
      communicator_(id, {2, place.end, place.name}, patience),
      ring_window_(communicator_, ring_.data(), ring_.size()) {
  if (place.block_bytes > 0) block_window_.emplace(communicator_, place.block, place.block_bytes);
  greet(patience);
}

/// The first operation of a communicator sets up what the later ones need, for which the ends wait for each
/// other.
void PutLine::greet(Duration patience) {
  const cuda::RelaxedCaptureMode relaxed;
  if (other_ == kReceiver) {
    communicator_.complete(library_.signal(static_cast<int>(other_), kSignal, kContext, kFlags,
                                           communicator_.get(), stream_.get()),
                           "sending the first signal");
  } else {
    wait_for(1);
    communicator_.complete(ncclInProgress, kWaiting);
    busy_ = false;
  }
  cuda::StreamedMessage greeting;
  stream_.mark_end(greeting);
  const host::SteadyClock clock;
  const Time until = clock.now() + patience;
  while (stream_.take_ended() == nullptr) {
    if (clock.now() > until) {
      abort();
      throw Error(fmt::format("{}: the first signal does not come", name()));
    }
    std::this_thread::sleep_for(kLook);
  }
}

bool PutLine::ready() {
  if (busy_) busy_ = !communicator_.ready("an operation on the edge's stream");
  return !busy_;
}

void PutLine::put_payload(const std::byte* from, std::size_t bytes, std::size_t to) {
  put(from, bytes, *block_window_, to);
}

void PutLine::put_header(std::size_t entry) {
  put(this->entry(entry), sizeof(PutHeader), ring_window_, entry * sizeof(PutHeader));
}

void PutLine::put(const std::byte* from, std::size_t bytes, const Window& window, std::size_t to) {
  const cuda::RelaxedCaptureMode relaxed;
  busy_ = !communicator_.over(
      library_.put_signal(from, bytes, ncclInt8, static_cast<int>(other_), window.get(), to, kSignal,
                          kContext, kFlags, communicator_.get(), stream_.get()),
      kPutting);
}

void PutLine::wait_for(std::uint32_t puts) {
  const cuda::RelaxedCaptureMode relaxed;
  ncclWaitSignalDesc_t wait{static_cast<int>(puts), static_cast<int>(other_), kSignal, kContext};
  busy_ = !communicator_.over(library_.wait_signal(1, &wait, communicator_.get(), stream_.get()), kWaiting);
}

void PutLine::check_health() {
  communicator_.check_health();
  if (stream_.oldest() == nullptr) return;
  if (const cudaError_t failure = stream_.failure(); failure != cudaSuccess)
    throw cuda::CudaError(failure, fmt::format("{}: the edge's stream", name()));
}

}  // namespace sluice::nccl
