#include "sluice/torch/process_groups.hpp"

#include <string>
#include <vector>

#include "gloo_backend.hpp"
#include "local_address.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

/// The ranks whose place `belongs`, in rank order.
template <typename Belongs>
ProcessGroup::Members members(const process::RankGrid& grid, std::uint32_t own, const char* name,
                              Belongs belongs) {
  ProcessGroup::Members members{name, {}, 0};
  for (std::uint32_t rank = 0; rank < grid.ranks(); ++rank) {
    if (!belongs(grid.place_of(rank))) continue;
    if (rank == own) members.index = static_cast<std::uint32_t>(members.ranks.size());
    members.ranks.push_back(rank);
  }
  return members;
}

}  // namespace

ProcessGroups::ProcessGroups(const process::RankGrid& grid, TcpStoreBootstrap& bootstrap, Duration timeout)
    : grid_(grid), place_(grid.place_of(bootstrap.rank())) {
  if (grid.ranks() != bootstrap.ranks()) {
    throw ConfigError("ranks", std::to_string(bootstrap.ranks()) + " ranks, but " +
                                   std::to_string(grid.stages) + " stages x " +
                                   std::to_string(grid.replicas) + " replicas x " +
                                   std::to_string(grid.group) + " members");
  }
  device_ = std::make_unique<GlooDevice>(local_address_towards(bootstrap.host()));
  const auto connect = [&](const char* name, auto belongs) {
    return std::make_unique<ProcessGroup>(members(grid, bootstrap.rank(), name, belongs), bootstrap.store(),
                                          *device_, timeout);
  };
  using Place = process::RankPlace;
  world_ = connect("run", [](const Place&) { return true; });
  tensor_ = connect("tensor-parallel group", [&](const Place& place) {
    return place.stage == place_.stage && place.replica == place_.replica;
  });
  data_ = connect("data-parallel group", [&](const Place& place) {
    return place.stage == place_.stage && place.member == place_.member;
  });
  replica_ = connect("replica", [&](const Place& place) { return place.replica == place_.replica; });
  // The store may be served by a rank: none leaves before all have connected.
  world_->barrier();
}

ProcessGroups::~ProcessGroups() = default;

}  // namespace sluice::gpt
