#include <memory>
#include <string>
#include <vector>

#include "gpu/agreeing_ranks.hpp"
#include "gpu/nccl_rows.hpp"
#include "gpu/subjects.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/nccl/communicator.hpp"
#include "sluice/nccl/nccl_agreement.hpp"

namespace sluice::microbench {
namespace {

class NcclRank final : public AgreeingRank {
 public:
  NcclRank(const ncclUniqueId& id, std::uint32_t rank, const AgreedStage& stage, agree::GroupChannel& channel)
      : device_(cuda::use_device(0)),
        communicator_(id, {kAgreeingRanks, rank, "the measured group"}, kPatience),
        agreement_(stage.tasks, channel, clock_, communicator_) {}

  [[nodiscard]] Agreement& agreement() override { return agreement_; }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(20);

  host::SteadyClock clock_;
  cuda::DeviceInfo device_;
  nccl::Communicator communicator_;
  nccl::NcclAgreement agreement_;
};

}  // namespace

std::vector<Row> measure_nccl_agreement(const Effort& effort) {
  if (const std::string reason = why_no_nccl(); !reason.empty()) return agreement_not_run(reason);
  const AgreedStage stage;
  const ncclUniqueId id = nccl::make_unique_id();
  host::InProcessGroup group(std::vector<Wake*>(kAgreeingRanks), nccl::NcclAgreement::needs());
  const auto make = [&](process::Bootstrap& bootstrap) {
    return std::make_unique<NcclRank>(id, bootstrap.rank(), stage, group.channel(bootstrap.rank()));
  };
  return {median_row(kNcclAgreement, "us", time_agreement(effort.times(2000, 50), stage, make))};
}

}  // namespace sluice::microbench
