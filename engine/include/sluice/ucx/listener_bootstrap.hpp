#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/process/process_place.hpp"

namespace sluice::ucx {

/// First words of the processes of a run over a UCX listener of rank 0, for builds without PyTorch. Always by
/// TCP, whatever UCX_TLS and UCX_NET_DEVICES say of the run itself.
///
/// Used from one thread. After an error it is of no more use.
class ListenerBootstrap final : public process::Bootstrap {
 public:
  /// Rank 0 listens at the port on all addresses; the others connect, and try again until they can. Waits for
  /// all ranks.
  /// @param timeout longest wait here, and in each exchange
  /// @throws ConfigError naming `RANK`, `WORLD_SIZE`, `MASTER_ADDR` or `MASTER_PORT`; Error naming host and
  ///         port if the port is in use or rank 0 does not answer, the ranks that did not come, or a rank
  ///         that came twice or was told of another number of ranks
  explicit ListenerBootstrap(process::ProcessPlace place, Duration timeout = std::chrono::seconds(60));
  ~ListenerBootstrap() override;
  ListenerBootstrap(const ListenerBootstrap&) = delete;
  ListenerBootstrap& operator=(const ListenerBootstrap&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept override { return place_.rank; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return place_.ranks; }
  [[nodiscard]] const std::string& host() const noexcept override { return place_.host; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override;

 private:
  process::ProcessPlace place_;
  /// One of the two.
  std::unique_ptr<class ListenerHub> hub_;
  std::unique_ptr<class ListenerGuest> guest_;
};

}  // namespace sluice::ucx
