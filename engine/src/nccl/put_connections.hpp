#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../cuda/edge_ends.hpp"
#include "put_receiver.hpp"
#include "put_sender.hpp"
#include "sluice/nccl/put_transport.hpp"

namespace sluice::nccl {

/// A rank's ends of the ways that lead to other ranks, by way; null for all others.
struct PutConnections {
  std::vector<std::unique_ptr<PutSender>> senders;
  std::vector<std::unique_ptr<PutReceiver>> receivers;

  void abort() noexcept;
};

/// `activations of edge 0 (chunk 0 to 1)`.
[[nodiscard]] std::string name_of_way(const Pipeline& pipeline, EdgeId edge, Direction direction);

/// All ranks that share `all_gather` connect.
/// @throws as PutTransport's constructor
[[nodiscard]] PutConnections connect(const PutMember& member, const std::vector<cuda::EdgeEnds>& ends,
                                     const cuda::AllGather& all_gather, Duration patience);

}  // namespace sluice::nccl
