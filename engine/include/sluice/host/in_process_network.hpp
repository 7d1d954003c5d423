#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::host {

/// Carries messages between ranks that are threads of one process. An accepted payload moves from the
/// sender's slot to the receiver's without a copy and without a lock. Offers name no shapes and no
/// bytes: nothing is allocated for them.
class InProcessNetwork {
 public:
  /// What a stage lends to the network. Both outlive it.
  struct Member {
    /// Null where messages carry no tensors.
    SlotBuffers* buffers = nullptr;
    /// Notified when a message for the stage's rank is ready.
    Wake* wake = nullptr;
  };

  /// @param members one a stage
  /// @throws ConfigError naming `stages` if their number differs from the pipeline's
  InProcessNetwork(const Pipeline& pipeline, std::span<const Member> members);
  ~InProcessNetwork();
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  [[nodiscard]] Transport& endpoint(StageId stage);

 private:
  class Endpoint;
  struct Link;

  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace sluice::host
