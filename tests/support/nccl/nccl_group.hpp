#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rank_threads.hpp"
#include "sluice/agreement.hpp"
#include "sluice/clock.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/nccl/communicator.hpp"
#include "sluice/nccl/nccl_agreement.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::test {

/// A communicator of all that share the bootstrap, who make it at the same time.
/// @param name of what they are, in errors
inline std::unique_ptr<nccl::Communicator> join_communicator(process::Bootstrap& bootstrap,
                                                             const std::string& name) {
  ncclUniqueId id{};
  if (bootstrap.rank() == 0) id = nccl::make_unique_id();
  const auto ids = bootstrap.all_gather(std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, ids[0].data(), sizeof id);
  return std::make_unique<nccl::Communicator>(
      id,
      nccl::Communicator::Place{bootstrap.ranks(), bootstrap.rank(),
                                name + ", rank " + std::to_string(bootstrap.rank())},
      std::chrono::seconds(30));
}

/// The communicators of a group whose members are in this process and on one device.
class GroupCommunicators {
 public:
  explicit GroupCommunicators(std::uint32_t members) : communicators_(members) {
    on_each_rank(members, [&](process::Bootstrap& bootstrap) {
      cuda::use_device(0);
      communicators_[bootstrap.rank()] = join_communicator(bootstrap, "the group");
    });
    cuda::use_device(0);
  }
  /// Together: a communicator waits for its peers.
  ~GroupCommunicators() {
    on_each_rank(members(), [&](process::Bootstrap& bootstrap) {
      cuda::use_device(0);
      communicators_[bootstrap.rank()].reset();
    });
  }
  GroupCommunicators(const GroupCommunicators&) = delete;
  GroupCommunicators& operator=(const GroupCommunicators&) = delete;

  [[nodiscard]] std::uint32_t members() const { return static_cast<std::uint32_t>(communicators_.size()); }
  [[nodiscard]] nccl::Communicator& of(std::uint32_t member) { return *communicators_[member]; }

 private:
  std::vector<std::unique_ptr<nccl::Communicator>> communicators_;
};

/// One agreement a member.
/// @param channels built for `NcclAgreement::needs`; all arguments outlive the agreements
inline std::vector<std::unique_ptr<Agreement>> make_nccl_agreements(
    const StageTasks& tasks, host::InProcessGroup& channels, const Clock& clock,
    GroupCommunicators& communicators, const nccl::AgreementOptions& options = {}) {
  std::vector<std::unique_ptr<Agreement>> agreements(communicators.members());
  on_each_rank(communicators.members(), [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::uint32_t member = bootstrap.rank();
    agreements[member] = std::make_unique<nccl::NcclAgreement>(tasks, channels.channel(member), clock,
                                                               communicators.of(member), options);
  });
  return agreements;
}

}  // namespace sluice::test
