#include "sluice/torch/group_exchange.hpp"

#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {

GroupExchange::GroupExchange(std::shared_ptr<ProcessGroups> groups) : groups_(std::move(groups)) {}

std::vector<SharedBytes> GroupExchange::all_gather(std::uint32_t rank, std::span<const std::byte> own) {
  require_own(rank);
  return groups_->replica().all_gather(own);
}

SharedBytes GroupExchange::swap_with(std::uint32_t rank, std::uint32_t peer, std::span<const std::byte> own) {
  require_own(rank);
  return groups_->replica().swap_with(peer, own);
}

void GroupExchange::require_own(std::uint32_t rank) const {
  const std::uint32_t own = groups_->replica().index();
  if (rank != own) {
    throw Error("place " + std::to_string(rank) + " of the replica exchanges in the process of place " +
                std::to_string(own));
  }
}

}  // namespace sluice::gpt
