#include "run/image_sizes.hpp"

#if SLUICE_HAVE_TORCH

#include "sluice/torch/shapes_data.hpp"

namespace sluice::tools {

std::vector<std::uint32_t> image_patches(const RunOptions& options, std::uint64_t step) {
  gpt::VitConfig config;
  config.largest_grid = options.model.encoder.image_grid;
  const gpt::ShapesData data(config, options.model.context);
  std::vector<std::uint32_t> patches;
  const std::uint32_t microbatches = options.pipeline.microbatches * options.grid().replicas;
  for (std::uint32_t microbatch = 0; microbatch < microbatches; ++microbatch)
    patches.push_back(data.grid(gpt::ShapesData::Part::Training, {options.seed, step, microbatch}).patches());
  return patches;
}

}  // namespace sluice::tools

#else

namespace sluice::tools {

/// Without LibTorch no model is trained.
std::vector<std::uint32_t> image_patches(const RunOptions&, std::uint64_t) { return {}; }

}  // namespace sluice::tools

#endif
