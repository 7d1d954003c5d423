#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace sluice::tools {

/// Which model is trained, and the image encoder it may have, as the command line gives them.
struct EncoderOptions {
  std::string model = "gpt";
  std::uint32_t layers = 2;
  /// As the GPT's where they are not given.
  std::optional<std::uint32_t> width;
  std::optional<std::uint32_t> heads;
  std::uint32_t image_grid = 10;
  std::uint32_t chunks = 0;

  /// Declares the options on a subcommand.
  void declare(CLI::App& command);
  /// @throws ConfigError naming `model`, or an option that the model does not have
  void check(const CLI::App& command) const;

  /// The model describes images.
  [[nodiscard]] bool used() const noexcept { return model == "vit-gpt"; }
  /// Every setting in use, as the results record it.
  /// @param gpt_width, gpt_heads of the GPT
  [[nodiscard]] nlohmann::json to_json(std::uint32_t gpt_width, std::uint32_t gpt_heads) const;
};

}  // namespace sluice::tools
