#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/executor.hpp"
#include "sluice/transport.hpp"

namespace sluice::cuda {

/// A message pulled, or to be pulled. A link of a chain.
struct IpcPull {
  MessageId id;
  Slot slot = kNoSlot;
  std::uint32_t sequence = 0;
  IpcPull* next = nullptr;
};

/// Copies into this rank's slots, in order on a stream that comes before compute, and how far they have
/// come: after each message the stream writes its number into pinned memory.
class IpcPulls {
 public:
  /// @throws CudaError
  IpcPulls();
  /// Waits for the copies under way.
  ~IpcPulls();
  IpcPulls(const IpcPulls&) = delete;
  IpcPulls& operator=(const IpcPulls&) = delete;

  /// @throws CudaError
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  /// What was copied since the last call is this message. It must live until `take_ended` gives it back.
  /// @throws CudaError
  void mark_end(IpcPull& pull);

  /// The oldest message if all of it is here, else null. Makes no call of the runtime.
  [[nodiscard]] IpcPull* take_ended() noexcept;
  /// The oldest that is under way; null for none.
  [[nodiscard]] const IpcPull* oldest() const noexcept { return first_; }
  /// What became of the stream, if something did.
  [[nodiscard]] cudaError_t failure() const noexcept;
  void wait() const noexcept;

 private:
  MappedMemory ended_;
  Stream stream_;
  std::uint32_t sequence_ = 0;
  IpcPull* first_ = nullptr;
  IpcPull* last_ = nullptr;
};

}  // namespace sluice::cuda
