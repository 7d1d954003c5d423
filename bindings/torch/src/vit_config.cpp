#include "sluice/torch/vit_config.hpp"

#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr std::uint32_t kMostLayers = 1024;
constexpr std::uint32_t kLargestSize = 1U << 16;
constexpr std::uint32_t kLargestGrid = 64;

void require_range(std::uint32_t value, const char* field, std::uint32_t least, std::uint32_t most) {
  if (value >= least && value <= most) return;
  throw ConfigError(field, "must be " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

void VitConfig::validate() const {
  require_range(layers, "encoder-layers", 1, kMostLayers);
  require_range(width, "encoder-width", 1, kLargestSize);
  require_range(heads, "encoder-heads", 1, kLargestSize);
  if (width % heads != 0) {
    throw ConfigError("encoder-heads", "width " + std::to_string(width) + " is not a multiple of " +
                                           std::to_string(heads) + " heads");
  }
  require_range(largest_grid, "image-grid", kSmallestGrid, kLargestGrid);
  if (chunks > layers) {
    throw ConfigError(
        "encoder-chunks",
        std::to_string(chunks) + " chunks need at least as many layers, there are " + std::to_string(layers));
  }
}

}  // namespace sluice::gpt
