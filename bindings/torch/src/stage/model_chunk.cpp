#include "model_chunk.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <utility>

#include "gpt_stage.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/vit_chunk.hpp"
#include "vit_stage.hpp"

namespace sluice::gpt {
namespace {

constexpr std::uint8_t kFloatBits = 32;

TensorShape activations(const GptConfig& config, std::uint32_t tokens, std::uint32_t width) {
  return {kDLFloat, kFloatBits, 3, {config.micro_batch_size, tokens, width}};
}

void check(const GptConfig& config, const ChunkTargetOptions& options) {
  config.validate();
  if (options.chunk >= options.chunks)
    throw ConfigError("chunk", fmt::format("{} of {} chunks", options.chunk, options.chunks));
  if (options.microbatches == 0) throw ConfigError("microbatches", "an iteration has one at least");
}

ModelChunk make_gpt(const GptConfig& config, const std::shared_ptr<const TextData>& text,
                    const ChunkTargetOptions& options, DeferredCode::Options code) {
  const LayerRange layers = divide_layers(config.layers, options.chunks)[options.chunk];
  ModelChunk made;
  if (!code.is_first) made.inputs = {activations(config, config.context, config.width)};
  if (!code.is_last) made.outputs = {activations(config, config.context, config.width)};
  const bool is_first = code.is_first;
  const bool is_last = code.is_last;
  made.code = std::make_unique<DeferredCode>(std::move(code), [&](const Progress& progress) {
    return std::make_unique<GptStage>(config, layers, is_first, is_last, options.microbatches, text,
                                      progress);
  });
  return made;
}

/// What comes after the chunk that has these blocks.
TensorShape output_of(const GptConfig& config, const VitLayers& layers, std::uint32_t patches) {
  const bool joined = layers.decoder.count > 0;
  const bool encoded = joined || layers.encoder.has_last(config.encoder->layers);
  return activations(config, joined ? patches + config.context : patches,
                     encoded ? config.width : config.encoder->width);
}

ModelChunk make_vit(const GptConfig& config, const ChunkTargetOptions& options, DeferredCode::Options code) {
  const std::vector<VitLayers> all = divide_vit_layers(config, options.chunks);
  const VitLayers layers = all[options.chunk];
  const std::uint32_t largest = config.encoder->largest_grid * config.encoder->largest_grid;
  ModelChunk made;
  if (!code.is_first) made.inputs = {output_of(config, all[options.chunk - 1], largest)};
  if (!code.is_last) {
    code.outputs = [config, layers](std::uint32_t patches) {
      return std::vector<TensorShape>{output_of(config, layers, patches)};
    };
    made.outputs = code.outputs(largest);
  }
  made.code = std::make_unique<DeferredCode>(std::move(code), [&](const Progress& progress) {
    return std::make_unique<VitStage>(config, layers, options.microbatches, progress);
  });
  return made;
}

}  // namespace

ModelChunk make_model_chunk(const GptConfig& config, const std::shared_ptr<const TextData>& text,
                            const ChunkTargetOptions& options, c10::Device device) {
  check(config, options);
  DeferredCode::Options code;
  code.config = config;
  code.microbatches = options.microbatches;
  code.is_first = options.chunk == 0;
  code.is_last = options.chunk == options.chunks - 1;
  code.device = device;
  code.first_step = options.first_step;
  return config.encoder ? make_vit(config, options, std::move(code))
                        : make_gpt(config, text, options, std::move(code));
}

}  // namespace sluice::gpt
