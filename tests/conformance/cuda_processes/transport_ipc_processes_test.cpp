#include <memory>

#include "../transport_conformance.hpp"
#include "cuda/remote_ranks.hpp"

/// The transport between devices, each rank a process. CUDA does not survive a fork, so that no test of this
/// executable may use it in the process of the tests.
namespace sluice::conformance {
namespace {

constexpr std::uint32_t kSlots = 110;

class IpcProcessesRig {
 public:
  explicit IpcProcessesRig(const Pipeline& pipeline)
      : ranks_(pipeline, [&](StageId stage, process::Bootstrap& bootstrap) {
          const test::DeviceSlots::Size size{kSlots, kTensors, kMostElements};
          return std::make_unique<test::DeviceRank>(pipeline, stage, size, test::all_gather_of(bootstrap));
        }) {}
  ~IpcProcessesRig() { EXPECT_NO_THROW(ranks_.close()); }
  IpcProcessesRig(const IpcProcessesRig&) = delete;
  IpcProcessesRig& operator=(const IpcProcessesRig&) = delete;

  Transport& endpoint(StageId stage) { return ranks_.endpoint(stage); }
  void pass_time() { ranks_.synchronize(); }

  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    ranks_.put(stage, id, slot, payload);
  }
  Payload get(StageId stage, const MessageId& id, Slot slot) { return ranks_.get(stage, id, slot); }

 private:
  test::RemoteRanks<> ranks_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(CudaIpcProcesses, TransportConformance, IpcProcessesRig);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaIpcProcesses, TransportPayloadConformance, IpcProcessesRig);

}  // namespace
}  // namespace sluice::conformance
