#include "sluice/process/rank_grid.hpp"

namespace sluice::process {

std::string to_string(const RankGrid& grid, std::uint32_t rank) {
  const RankPlace place = grid.place_of(rank);
  std::string text = "rank " + std::to_string(rank);
  if (grid.replicas == 1 && grid.group == 1) return text;
  text += " (stage " + std::to_string(place.stage);
  if (grid.replicas > 1) text += ", replica " + std::to_string(place.replica);
  if (grid.group > 1) text += ", member " + std::to_string(place.member);
  return text + ")";
}

}  // namespace sluice::process
