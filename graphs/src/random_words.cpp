#include "sluice/graphs/random_words.hpp"

#include <cstring>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/host/draws.hpp"

namespace sluice::graphs {

RandomState random_state(std::uint64_t seed, std::uint64_t iteration, Chunk chunk,
                         Microbatch microbatch) noexcept {
  constexpr std::uint64_t counter_step = 4;
  return {host::draws::bits({seed, iteration, chunk, microbatch, 0}),
          host::draws::bits({seed, iteration, chunk, microbatch, 1}) & ~(counter_step - 1)};
}

RandomWords::RandomWords(std::uint32_t slots, std::uint64_t seed, Chunk chunk)
    : seed_(seed), chunk_(chunk), host_(slots * sizeof(RandomState), "random states") {}

void RandomWords::prepare(const host::TaskContext& context, Pass pass, RandomState* words,
                          cudaStream_t stream) {
  if (pass != Pass::Forward) return;
  const RandomState state = random_state(seed_, context.iteration, chunk_, context.microbatch);
  std::byte* const from = host_.host() + context.slot * sizeof state;
  std::memcpy(from, &state, sizeof state);
  cuda::check(cudaMemcpyAsync(words, from, sizeof state, cudaMemcpyHostToDevice, stream),
              "writing a random state");
}

}  // namespace sluice::graphs
