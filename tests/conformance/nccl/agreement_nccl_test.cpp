#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../agreement_conformance.hpp"
#include "attempt_checks.hpp"
#include "nccl/nccl_group.hpp"

/// The agreement on the device, its members in one thread.
namespace sluice {
namespace {

void delay_device(int most_us) {
  if (fakecuda_delay_us != nullptr) fakecuda_delay_us(most_us);
}

/// @tparam DelayUs most that an operation of the device is held up
template <std::uint32_t Members, int DelayUs>
class OnDevice {
 public:
  static constexpr std::uint32_t kMembers = Members;
  explicit OnDevice(const StageTasks& tasks) {
    agreements_ = test::make_nccl_agreements(tasks, channels_, clock_, communicators_);
    delay_device(DelayUs);
  }
  ~OnDevice() { delay_device(0); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  [[nodiscard]] Agreement& member(std::uint32_t member) { return *agreements_[member]; }

 private:
  host::SteadyClock clock_;
  test::GroupCommunicators communicators_{Members};
  host::InProcessGroup channels_{std::vector<Wake*>(Members), nccl::NcclAgreement::needs()};
  std::vector<std::unique_ptr<Agreement>> agreements_;
};

using OnDevices = ::testing::Types<OnDevice<1, 0>, OnDevice<2, 0>, OnDevice<3, 0>, OnDevice<4, 0>,
                                   OnDevice<2, 100>, OnDevice<3, 100>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, AgreementConformance, OnDevices);

RC_GTEST_PROP(NcclCommonCandidate, AnAttemptDecidesIfItsSnapshotsShareATask, ()) {
  std::vector<std::unique_ptr<test::GroupCommunicators>> communicators;
  test::check_attempts(test::rapidcheck_draw(), [&](std::uint32_t members) {
    communicators.push_back(std::make_unique<test::GroupCommunicators>(members));
    return std::make_unique<test::HandGroup>(
        nccl::NcclAgreement::needs(), members, [&](test::HandGroup& group) {
          return test::make_nccl_agreements(group.tasks, group.channels, group.clock, *communicators.back());
        });
  });
}

}  // namespace
}  // namespace sluice
