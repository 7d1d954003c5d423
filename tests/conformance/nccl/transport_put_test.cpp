#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../transport_conformance.hpp"
#include "nccl/put_threads.hpp"

/// The transport that puts, its ranks in one process.
namespace sluice::conformance {
namespace {

constexpr std::uint32_t kSlots = 110;
constexpr auto kLongest = std::chrono::seconds(60);

class PutRig {
 public:
  explicit PutRig(const Pipeline& pipeline) : PutRig(pipeline, 0) {}
  PutRig(const Pipeline& pipeline, int delay_us) {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(delay_us);
    const test::DeviceSlots::Size size{kSlots, kTensors, kMostElements};
    ranks_ = std::make_unique<test::PutThreads>(
        pipeline, std::vector<test::DeviceSlots::Size>(pipeline.stages(), size));
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      if (const std::string& error = ranks_->error(stage); !error.empty()) throw std::runtime_error(error);
    }
    stages_ = pipeline.stages();
  }
  ~PutRig() {
    if (fakecuda_delay_us != nullptr) fakecuda_delay_us(0);
  }
  PutRig(const PutRig&) = delete;
  PutRig& operator=(const PutRig&) = delete;

  Transport& endpoint(StageId stage) { return ranks_->rank(stage).endpoint(); }
  /// Until nothing is under way.
  void pass_time() {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    for (bool busy = true; busy; std::this_thread::yield()) {
      if (std::chrono::steady_clock::now() > until)
        throw std::runtime_error("what is under way does not end");
      busy = false;
      for (StageId stage = 0; stage < stages_; ++stage) {
        ranks_->rank(stage).pass_time();
        busy = busy || endpoint(stage).next_deadline() == kAnyTime;
      }
    }
  }

  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    ranks_->rank(stage).put(id, slot, payload);
  }
  Payload get(StageId stage, const MessageId& id, Slot slot) { return ranks_->rank(stage).get(id, slot); }

 private:
  std::unique_ptr<test::PutThreads> ranks_;
  StageId stages_ = 0;
};

/// Each operation of a stream is held up for a while.
class DelayedPutRig : public PutRig {
 public:
  explicit DelayedPutRig(const Pipeline& pipeline) : PutRig(pipeline, 100) {}
};

INSTANTIATE_TYPED_TEST_SUITE_P(NcclPut, TransportConformance, PutRig);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclPut, TransportPayloadConformance, PutRig);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclPutDelayed, TransportConformance, DelayedPutRig);
INSTANTIATE_TYPED_TEST_SUITE_P(NcclPutDelayed, TransportPayloadConformance, DelayedPutRig);

}  // namespace
}  // namespace sluice::conformance
