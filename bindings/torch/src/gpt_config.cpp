#include "sluice/torch/gpt_config.hpp"

#include <cmath>
#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

void require(bool holds, const char* field, const std::string& reason) {
  if (!holds) throw ConfigError(field, reason);
}

// Far above what this model is for; a typing mistake is refused, not allocated.
constexpr std::uint32_t kMostLayers = 1024;
constexpr std::uint32_t kLargestSize = 1U << 16;

void require_size(std::uint32_t value, const char* field, std::uint32_t most = kLargestSize) {
  require(value >= 1 && value <= most, field, "must be 1 to " + std::to_string(most));
}

bool in_unit_interval(double value) { return value >= 0.0 && value < 1.0; }

}  // namespace

void GptConfig::validate() const {
  require_size(layers, "layers", kMostLayers);
  require_size(width, "width");
  require_size(heads, "heads");
  require(width % heads == 0, "heads",
          "width " + std::to_string(width) + " is not a multiple of " + std::to_string(heads) + " heads");
  require_size(context, "context");
  require(vocabulary >= 256, "vocabulary", "must hold every byte, at least 256");
  require_size(micro_batch_size, "micro-batch-size");
  require(in_unit_interval(dropout), "dropout", "must be at least 0 and below 1");
  require(learning_rate > 0.0 && std::isfinite(learning_rate), "lr", "must be positive");
  require(in_unit_interval(beta1), "beta1", "must be at least 0 and below 1");
  require(in_unit_interval(beta2), "beta2", "must be at least 0 and below 1");
  require(epsilon > 0.0 && std::isfinite(epsilon), "epsilon", "must be positive");
  require(weight_decay >= 0.0 && std::isfinite(weight_decay), "weight-decay", "must not be negative");
  require(clip_norm >= 0.0 && std::isfinite(clip_norm), "clip", "must not be negative");
  if (encoder) encoder->validate();
}

std::vector<LayerRange> divide_layers(std::uint32_t layers, std::uint32_t chunks) {
  require(chunks >= 1, "stages", "must be at least 1");
  require(
      layers >= chunks, "stages",
      std::to_string(chunks) + " chunks need at least as many layers, there are " + std::to_string(layers));
  std::vector<LayerRange> ranges;
  std::uint32_t first = 0;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::uint32_t count = layers / chunks + (chunk < layers % chunks ? 1 : 0);
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

}  // namespace sluice::gpt
