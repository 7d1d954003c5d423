#include <chrono>
#include <memory>
#include <stdexcept>

#include "../transport_conformance.hpp"
#include "cuda/remote_ranks.hpp"
#include "nccl/put_rank.hpp"
#include "nccl/shared_group.hpp"

/// The transport that puts, each rank a process. CUDA does not survive a fork, so that no test of this
/// executable may use it in the process of the tests.
namespace sluice::conformance {
namespace {

constexpr test::DeviceSlots::Size kSize{110, kTensors, kMostElements};
constexpr auto kLongest = std::chrono::seconds(60);

class PutProcessesRig {
 public:
  explicit PutProcessesRig(const Pipeline& pipeline)
      : stages_(pipeline.stages()),
        group_(pipeline.stages(), test::PutRank::needs(pipeline, kSize)),
        ranks_(pipeline, [&](StageId stage, process::Bootstrap& bootstrap) {
          return std::make_unique<Rank>(pipeline, stage, bootstrap, group_);
        }) {}
  ~PutProcessesRig() { EXPECT_NO_THROW(ranks_.close()); }
  PutProcessesRig(const PutProcessesRig&) = delete;
  PutProcessesRig& operator=(const PutProcessesRig&) = delete;

  Transport& endpoint(StageId stage) { return ranks_.endpoint(stage); }
  /// Until nothing is under way.
  void pass_time() {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    for (bool busy = true; busy;) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("what is under way does not end");
      ranks_.synchronize();
      busy = false;
      for (StageId stage = 0; stage < stages_; ++stage)
        busy = busy || endpoint(stage).next_deadline() == kAnyTime;
    }
  }

  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    ranks_.put(stage, id, slot, payload);
  }
  Payload get(StageId stage, const MessageId& id, Slot slot) { return ranks_.get(stage, id, slot); }

 private:
  /// A rank and its end of the group.
  class Rank {
   public:
    Rank(const Pipeline& pipeline, StageId stage, process::Bootstrap& bootstrap,
         const test::SharedGroup& group)
        : channel_(group.channel(bootstrap.rank())),
          rank_(pipeline, stage, kSize, test::all_gather_of(bootstrap), *channel_) {}

    [[nodiscard]] Transport& endpoint() { return rank_.endpoint(); }
    void pass_time() { rank_.pass_time(); }
    void put(const MessageId& id, Slot slot, const Payload& payload) { rank_.put(id, slot, payload); }
    [[nodiscard]] Payload get(const MessageId& id, Slot slot) { return rank_.get(id, slot); }

   private:
    std::unique_ptr<agree::GroupChannel> channel_;
    test::PutRank rank_;
  };

  StageId stages_;
  test::SharedGroup group_;
  test::RemoteRanks<Rank> ranks_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(NcclPutProcesses, TransportConformance, PutProcessesRig);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclPutProcesses, TransportPayloadConformance, PutProcessesRig);

}  // namespace
}  // namespace sluice::conformance
