#include "message_stream.hpp"

#include <atomic>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"

namespace sluice::cuda {

MessageStream::MessageStream()
    : ended_(sizeof(std::uint32_t), "the messages of a transport"), stream_(make_stream(Priority::Highest)) {}

MessageStream::~MessageStream() { wait(); }

void MessageStream::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()),
        "putting a copy of a message on a stream");
}

void MessageStream::mark_end(StreamedMessage& message) {
  message.sequence = ++sequence_;
  message.next = nullptr;
  write_value(stream_.get(), reinterpret_cast<std::uint32_t*>(ended_.device()), message.sequence);
  (first_ == nullptr ? first_ : last_->next) = &message;
  last_ = &message;
}

StreamedMessage* MessageStream::take_ended() noexcept {
  if (first_ == nullptr) return nullptr;
  const std::atomic_ref<std::uint32_t> word(*reinterpret_cast<std::uint32_t*>(ended_.host()));
  // Numbers go round after 2^32; far fewer messages are under way.
  if (static_cast<std::int32_t>(word.load(std::memory_order_acquire) - first_->sequence) < 0) return nullptr;
  StreamedMessage* message = first_;
  first_ = message->next;
  return message;
}

cudaError_t MessageStream::failure() const noexcept {
  const RelaxedCaptureMode relaxed;
  const cudaError_t code = cudaStreamQuery(stream_.get());
  if (code != cudaErrorNotReady) return code;
  static_cast<void>(cudaGetLastError());
  return cudaSuccess;
}

void MessageStream::wait() const noexcept {
  const RelaxedCaptureMode relaxed;
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

}  // namespace sluice::cuda
