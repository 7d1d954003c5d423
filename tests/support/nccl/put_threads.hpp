#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "nccl/put_rank.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/host/in_process_group.hpp"

namespace sluice::test {

/// Ranks of one process, made by a thread each and driven by one.
class PutThreads {
 public:
  /// Before a rank's bytes are gathered.
  using Change = std::function<void(std::uint32_t rank, std::vector<std::byte>& own)>;

  PutThreads(const Pipeline& pipeline, const std::vector<DeviceSlots::Size>& sizes,
             const nccl::PutOptions& options = {}, const Change& change = {})
      : group_(std::vector<Wake*>(pipeline.stages()), PutRank::needs(pipeline, sizes.front())),
        ranks_(pipeline.stages()),
        errors_(pipeline.stages()) {
    cuda::use_device(0);
    on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
      const std::uint32_t rank = bootstrap.rank();
      const cuda::AllGather all_gather = [&](std::span<const std::byte> own) {
        std::vector<std::byte> bytes(own.begin(), own.end());
        if (change) change(rank, bytes);
        return bootstrap.all_gather(bytes);
      };
      cuda::use_device(0);
      try {
        ranks_[rank] = std::make_unique<PutRank>(pipeline, static_cast<StageId>(rank), sizes[rank],
                                                 all_gather, group_.channel(rank), options);
      } catch (const Error& error) {
        errors_[rank] = error.what();
      }
    });
  }
  /// All end in one thread: none can wait for another.
  ~PutThreads() {
    for (const auto& rank : ranks_) {
      if (rank != nullptr) rank->transport().abandon();
    }
  }
  PutThreads(const PutThreads&) = delete;
  PutThreads& operator=(const PutThreads&) = delete;

  nccl::PutTransport& operator[](std::uint32_t number) { return rank(number).transport(); }
  /// @throws std::runtime_error saying why if it could not be made
  PutRank& rank(std::uint32_t rank) {
    if (ranks_[rank] == nullptr) throw std::runtime_error(errors_[rank]);
    return *ranks_[rank];
  }
  agree::GroupChannel& channel(std::uint32_t rank) { return group_.channel(rank); }
  void end(std::uint32_t rank) { ranks_[rank].reset(); }
  /// Why a rank could not be made; empty if it was.
  [[nodiscard]] const std::string& error(std::uint32_t rank) const { return errors_[rank]; }

 private:
  host::InProcessGroup group_;
  std::vector<std::unique_ptr<PutRank>> ranks_;
  std::vector<std::string> errors_;
};

}  // namespace sluice::test
