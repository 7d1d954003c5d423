#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/first_common.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/nccl/communicator.hpp"

namespace sluice::nccl {

/// The device's part of an attempt: the members' bytes are reduced to those that all have, and the first task
/// of each window is found among them. One attempt at a time. All of it is enqueued on a stream of the
/// highest priority, and its end is seen in pinned memory.
class CommonSearch {
 public:
  /// All members make one at the same time.
  /// @param most bytes of an attempt
  /// @param communicator outlives the search
  /// @throws NcclError naming the group; Error if a member does not come within the patience; CudaError
  CommonSearch(Communicator& communicator, std::size_t most, Duration patience);
  /// Aborts the communicator if an attempt has not ended: it might never.
  ~CommonSearch();
  CommonSearch(const CommonSearch&) = delete;
  CommonSearch& operator=(const CommonSearch&) = delete;

  /// Where this rank's bytes go before `start`.
  [[nodiscard]] std::span<std::uint8_t> bytes() noexcept;
  /// With the same windows on every member, the bytes of one after those of another.
  /// @param attempt another one than the last
  /// @throws NcclError naming the group; CudaError
  void start(std::uint64_t attempt, const kernels::Windows& windows);
  [[nodiscard]] bool running() const noexcept { return phase_ != Phase::Ended; }
  /// Whether the attempt has ended, which then counts as seen; goes on with what could not yet be enqueued.
  /// @throws NcclError naming the group; CudaError
  [[nodiscard]] bool ended();
  /// Of the attempt that ended.
  [[nodiscard]] const kernels::Firsts& firsts() const noexcept { return answer().firsts; }

 private:
  enum class Phase : std::uint8_t {
    Ended,
    Reducing,  ///< the library is still at enqueuing the reduction
    Searching,
  };

  void warm_up(Duration patience);
  void search();
  void end() noexcept;
  [[nodiscard]] kernels::Answer& answer() const noexcept;

  Communicator& communicator_;
  const Library& library_;
  cuda::MappedMemory upload_;
  cuda::DeviceMemory reduced_;
  cuda::MappedMemory answer_;
  cuda::Stream stream_;
  Phase phase_ = Phase::Ended;
  std::uint64_t attempt_ = 0;
  kernels::Windows windows_{};
};

}  // namespace sluice::nccl
