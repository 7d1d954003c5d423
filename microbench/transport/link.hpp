#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sluice/host/slot_buffers.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/ucx/message_plane.hpp"

namespace sluice::microbench {

/// One end of a chain of two stages, each a process: stage 0 sends activations, stage 1 gradients.
class Link {
 public:
  /// @param bytes of each message's one tensor; 0 for messages without tensors
  Link(process::Bootstrap& bootstrap, std::size_t bytes, Microbatch microbatches);

  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] ucx::MessagePlane& plane() noexcept { return plane_; }
  [[nodiscard]] const Pipeline& pipeline() const noexcept { return pipeline_; }

  /// Sends the microbatch's message, as often as wanted: all messages send the same memory.
  void send(Microbatch microbatch);
  /// Takes what has been offered.
  /// @return messages that arrived; their tensors are dropped
  std::uint32_t receive();
  /// Sends that ended since the last call.
  std::uint32_t ended();

 private:
  [[nodiscard]] std::byte* data() const;
  std::uint32_t take_arrivals();

  Pipeline pipeline_;
  StageId stage_;
  std::size_t bytes_;
  ucx::MessagePlane plane_;
  host::SlotBuffers buffers_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace sluice::microbench
