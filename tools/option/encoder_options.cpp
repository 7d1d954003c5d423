#include "option/encoder_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr std::array<const char*, 5> kEncoderOptions = {"encoder-layers", "encoder-width", "encoder-heads",
                                                        "encoder-chunks", "image-grid"};

}  // namespace

void EncoderOptions::declare(CLI::App& command) {
  constexpr const char* group = "Model and training";
  command
      .add_option("--model", model,
                  "gpt learns a text, vit-gpt to describe images, whose sizes differ between microbatches")
      ->capture_default_str()
      ->group(group);
  command.add_option("--encoder-layers", layers, "Transformer blocks of the image encoder")
      ->capture_default_str()
      ->group(group);
  command.add_option("--encoder-width", width, "Width of the image encoder (default: that of the GPT)")
      ->group(group);
  command
      .add_option("--encoder-heads", heads,
                  "Attention heads of the image encoder (default: those of the GPT)")
      ->group(group);
  command
      .add_option("--encoder-chunks", chunks,
                  "Chunks at the head of the chain for the image encoder alone; 0 divides the blocks of "
                  "encoder and GPT together")
      ->capture_default_str()
      ->group(group);
  command.add_option("--image-grid", image_grid, "Largest side of an image, in patches of 8 x 8 pixels")
      ->capture_default_str()
      ->group(group);
}

void EncoderOptions::check(const CLI::App& command) const {
  if (model != "gpt" && model != "vit-gpt")
    throw ConfigError("model", fmt::format("'{}' is not one of gpt, vit-gpt", model));
  if (used() && command.count("--text") > 0)
    throw ConfigError("text", "vit-gpt learns to describe images, which it draws itself");
  for (const char* option : kEncoderOptions) {
    if (!used() && command.count(fmt::format("--{}", option)) > 0)
      throw ConfigError(option, "a gpt has no image encoder: --model vit-gpt");
  }
}

nlohmann::json EncoderOptions::to_json(std::uint32_t gpt_width, std::uint32_t gpt_heads) const {
  nlohmann::json json = {{"model", model}};
  if (!used()) return json;
  json.update({{"encoder_layers", layers},
               {"encoder_width", width.value_or(gpt_width)},
               {"encoder_heads", heads.value_or(gpt_heads)},
               {"encoder_chunks", chunks},
               {"image_grid", image_grid}});
  return json;
}

}  // namespace sluice::tools
