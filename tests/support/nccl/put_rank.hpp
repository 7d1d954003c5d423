#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda/device_rank.hpp"
#include "nccl/driven_transport.hpp"
#include "sluice/nccl/put_transport.hpp"
#include "sluice/nccl/window_block.hpp"

namespace sluice::test {

/// A stage's slots and the transport that puts.
class PutRank : public DeviceSlots {
 public:
  PutRank(const Pipeline& pipeline, StageId stage, const Size& size, const cuda::AllGather& all_gather,
          agree::GroupChannel& messages, const nccl::PutOptions& options = {})
      : DeviceSlots(pipeline, stage, size, nccl::window_block(all_gather)),
        transport_({pipeline, stage, rank_of_stage(), slots(), messages, clock()}, all_gather, options) {}

  [[nodiscard]] nccl::PutTransport& transport() { return transport_; }
  /// The same, found where it is driven by `pass_time`.
  [[nodiscard]] Transport& endpoint() { return driven_; }
  void pass_time() { driven_.drive(); }
  /// Neither a word nor the device ends it.
  void sleep_until(Time deadline) {
    const Duration longest = std::chrono::microseconds(50);
    std::this_thread::sleep_for(std::min(deadline - clock().now(), longest));
  }

  /// What the ranks' channel must be able to carry.
  static agree::ChannelNeeds needs(const Pipeline& pipeline, const Size& size) {
    const std::vector<cuda::EdgeLayout> layouts(pipeline.edges().size(),
                                                cuda::EdgeLayout(size.tensors, vector_shape(size.elements)));
    return nccl::PutTransport::needs(pipeline, layouts);
  }

 private:
  nccl::PutTransport transport_;
  DrivenTransport driven_{transport_};
};

}  // namespace sluice::test
