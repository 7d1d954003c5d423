#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "../transport_conformance.hpp"
#include "cuda/device_rank.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"

/// The transport between devices, its ranks in one process.
namespace sluice::conformance {
namespace {

constexpr std::uint32_t kSlots = 110;

class IpcRig {
 public:
  explicit IpcRig(const Pipeline& pipeline) : ranks_(pipeline.stages()) {
    cuda::use_device(0);
    test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
      cuda::use_device(0);
      ranks_[bootstrap.rank()] = std::make_unique<test::DeviceRank>(
          pipeline, static_cast<StageId>(bootstrap.rank()),
          test::DeviceRank::Size{kSlots, kTensors, kMostElements}, test::all_gather_of(bootstrap));
    });
  }

  /// All ranks end in this thread: none can wait for another.
  ~IpcRig() {
    for (const auto& rank : ranks_) rank->transport().abandon();
  }
  IpcRig(const IpcRig&) = delete;
  IpcRig& operator=(const IpcRig&) = delete;

  Transport& endpoint(StageId stage) { return ranks_[stage]->transport(); }
  void pass_time() { cuda::check(cudaDeviceSynchronize(), "waiting for the device"); }

  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    ranks_[stage]->put(id, slot, payload);
  }
  Payload get(StageId stage, const MessageId& id, Slot slot) { return ranks_[stage]->get(id, slot); }

 private:
  std::vector<std::unique_ptr<test::DeviceRank>> ranks_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(CudaIpc, TransportConformance, IpcRig);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaIpc, TransportPayloadConformance, IpcRig);

}  // namespace
}  // namespace sluice::conformance
