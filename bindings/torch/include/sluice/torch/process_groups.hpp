#pragma once

#include <memory>

#include "sluice/clock.hpp"
#include "sluice/process/rank_grid.hpp"
#include "sluice/torch/process_group.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"

namespace sluice::gpt {

/// The groups one process of a run belongs to. Each group may be used by a thread of its own.
class ProcessGroups {
 public:
  /// Connects all groups; all ranks of the run make this call.
  ///
  /// A rank tells the others the address of the interface by which it reaches the bootstrap's host;
  /// GLOO_SOCKET_IFNAME names another one.
  /// @param timeout longest wait in each later call: longer than one rank may be ahead of another
  /// @throws ConfigError naming `ranks` if the grid has another number of ranks than the bootstrap; Error
  ///         naming the group that could not be connected
  ProcessGroups(const process::RankGrid& grid, TcpStoreBootstrap& bootstrap, Duration timeout);
  ~ProcessGroups();
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  [[nodiscard]] const process::RankGrid& grid() const noexcept { return grid_; }
  [[nodiscard]] process::RankPlace place() const noexcept { return place_; }

  /// All ranks of the run.
  [[nodiscard]] ProcessGroup& world() noexcept { return *world_; }
  /// The ranks that share this rank's layers.
  [[nodiscard]] ProcessGroup& tensor() noexcept { return *tensor_; }
  /// The ranks with the same part of the model in all replicas.
  [[nodiscard]] ProcessGroup& data() noexcept { return *data_; }
  /// The ranks that hold one whole model together, this rank's replica: by stage, then by member.
  [[nodiscard]] ProcessGroup& replica() noexcept { return *replica_; }

 private:
  process::RankGrid grid_;
  process::RankPlace place_;
  std::unique_ptr<GlooDevice> device_;
  std::unique_ptr<ProcessGroup> world_;
  std::unique_ptr<ProcessGroup> tensor_;
  std::unique_ptr<ProcessGroup> data_;
  std::unique_ptr<ProcessGroup> replica_;
};

}  // namespace sluice::gpt
