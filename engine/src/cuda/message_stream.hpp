#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/executor.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

/// A message that a stream moves, or is to move. A link of a chain.
struct StreamedMessage {
  MessageId id;
  Slot slot = kNoSlot;
  std::uint32_t sequence = 0;
  StreamedMessage* next = nullptr;
};

/// A stream of a transport's own, which comes before compute, and how far it has come: after each message it
/// writes the message's number into pinned memory.
class MessageStream {
 public:
  /// @throws CudaError
  MessageStream();
  /// Waits for what is under way.
  ~MessageStream();
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }
  /// Between memory of any kind.
  /// @throws CudaError
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  /// What was put on the stream since the last call is this message. It must live until `take_ended` gives
  /// it back.
  /// @throws CudaError
  void mark_end(StreamedMessage& message);

  /// The oldest message if all of it is done, else null. Makes no call of the runtime.
  [[nodiscard]] StreamedMessage* take_ended() noexcept;
  /// The oldest that is under way; null for none.
  [[nodiscard]] const StreamedMessage* oldest() const noexcept { return first_; }
  /// What became of the stream, if something did.
  [[nodiscard]] cudaError_t failure() const noexcept;
  void wait() const noexcept;

 private:
  MappedMemory ended_;
  Stream stream_;
  std::uint32_t sequence_ = 0;
  StreamedMessage* first_ = nullptr;
  StreamedMessage* last_ = nullptr;
};

}  // namespace sluice::cuda
