#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "../cuda/message_stream.hpp"
#include "put_words.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {

/// What makes one end of a way: the communicator of its two ranks, the windows that both have in it, and the
/// stream for its puts or waits.
class PutLine {
 public:
  static constexpr std::uint32_t kSender = 0;
  static constexpr std::uint32_t kReceiver = 1;

  struct Place {
    /// kSender or kReceiver.
    std::uint32_t end = kSender;
    /// `rank 1: activations of edge 0 (chunk 0 to 1) from rank 0 (stage 0)`.
    std::string name;
    /// The block of the rank's slots; of the same size at both ends.
    std::byte* block = nullptr;
    std::size_t block_bytes = 0;
  };

  /// Both ends make it at the same time.
  /// @throws NcclError naming the place; CudaError; Error if the other end does not come
  PutLine(const Place& place, const ncclUniqueId& id, Duration patience);
  PutLine(const PutLine&) = delete;
  PutLine& operator=(const PutLine&) = delete;

  /// Whether nothing of it goes on in the background, so that something may be put on its stream.
  /// @throws NcclError
  [[nodiscard]] bool ready();
  /// Bytes of this rank's block, or of its ring, into the other's.
  /// @throws NcclError
  void put_payload(const std::byte* from, std::size_t bytes, std::size_t to);
  void put_header(std::size_t entry);
  /// The stream goes on when so many puts of the other end are here.
  /// @throws NcclError
  void wait_for(std::uint32_t puts);

  [[nodiscard]] cuda::MessageStream& stream() noexcept { return stream_; }
  /// An entry of the ring, in the window.
  [[nodiscard]] std::byte* entry(std::size_t entry) const noexcept {
    return ring_.data() + entry * sizeof(PutHeader);
  }
  /// The same in pinned memory, from which it is put, or to which it is copied.
  [[nodiscard]] PutHeader& pinned(std::size_t entry) const noexcept {
    return reinterpret_cast<PutHeader*>(pinned_.host())[entry];
  }

  [[nodiscard]] const std::string& name() const noexcept { return communicator_.place().name; }
  /// @throws NcclError, or CudaError if work on the stream has failed
  void check_health();
  void abort() noexcept { communicator_.abort(); }
  /// How long its end may take.
  void set_patience(Duration patience) noexcept { communicator_.set_patience(patience); }

 private:
  void greet(Duration patience);
  void put(const std::byte* from, std::size_t bytes, const Window& window, std::size_t to);

  const Library& library_;
  std::uint32_t other_;
  cuda::MessageStream stream_;
  cuda::MappedMemory pinned_;
  WindowMemory ring_;
  Communicator communicator_;
  /// None where no message has any payload.
  std::optional<Window> block_window_;
  Window ring_window_;
  bool busy_ = false;
};

}  // namespace sluice::nccl
