#include <vector>

#include "../wake_conformance.hpp"
#include "cuda/device_rank.hpp"
#include "memory_bootstrap.hpp"
#include "sluice/cuda/device.hpp"

/// The wake in memory that several processes share.
namespace sluice::conformance {
namespace {

/// That of a rank without neighbours.
class IpcTransportWake final : public Wake {
 public:
  void notify() noexcept override { rank_.transport().wake().notify(); }
  void wait_until(Time deadline) override { rank_.transport().wake().wait_until(deadline); }

 private:
  cuda::DeviceInfo device_ = cuda::use_device(0);
  Pipeline pipeline_ = Pipeline::chain(1, 1);
  test::MeetingPlace place_{1};
  test::MemoryBootstrap bootstrap_{place_, 0};
  test::DeviceRank rank_{pipeline_, 0, {1, 1, 1}, test::all_gather_of(bootstrap_)};
};

INSTANTIATE_TYPED_TEST_SUITE_P(CudaIpc, WakeConformance, IpcTransportWake);

}  // namespace
}  // namespace sluice::conformance
