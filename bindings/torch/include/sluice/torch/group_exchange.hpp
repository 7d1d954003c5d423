#pragma once

#include <memory>

#include "sluice/torch/process_groups.hpp"
#include "sluice/torch/step_exchange.hpp"

namespace sluice::gpt {

/// The end of a step between the processes that hold one replica of the model; ranks are places in
/// `ProcessGroups::replica()`.
class GroupExchange final : public StepExchange {
 public:
  explicit GroupExchange(std::shared_ptr<ProcessGroups> groups);

  std::vector<SharedBytes> all_gather(std::uint32_t rank, std::span<const std::byte> own) override;
  SharedBytes swap_with(std::uint32_t rank, std::uint32_t peer, std::span<const std::byte> own) override;

 private:
  void require_own(std::uint32_t rank) const;

  std::shared_ptr<ProcessGroups> groups_;
};

}  // namespace sluice::gpt
