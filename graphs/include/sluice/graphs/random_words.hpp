#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "sluice/cuda/memory.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/task.hpp"

namespace sluice::graphs {

/// The random state of one microbatch in one chunk, as counter-based generators take it.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< a multiple of 4, as Philox asks for

  friend constexpr bool operator==(const RandomState&, const RandomState&) = default;
};

/// Depends on these alone, so that a microbatch has the same whatever order tasks run in, captured or not.
[[nodiscard]] RandomState random_state(std::uint64_t seed, std::uint64_t iteration, Chunk chunk,
                                       Microbatch microbatch) noexcept;

/// Hands the random state of each microbatch of a chunk to its captured passes: as words in its slot, which
/// they read at an address that does not change, and which are written on the stream before the launch.
class RandomWords {
 public:
  /// @throws CudaError
  RandomWords(std::uint32_t slots, std::uint64_t seed, Chunk chunk);

  /// For the stage's `prepare_task`: writes the state of a forward's microbatch. Its other passes find it
  /// there. Does not wait.
  /// @param words in the slot's saved memory, on the device
  /// @throws CudaError
  void prepare(const host::TaskContext& context, Pass pass, RandomState* words, cudaStream_t stream);

 private:
  std::uint64_t seed_;
  Chunk chunk_;
  /// A slot's words are written here only when its last microbatch has ended, so never while they are copied.
  cuda::MappedMemory host_;
};

}  // namespace sluice::graphs
