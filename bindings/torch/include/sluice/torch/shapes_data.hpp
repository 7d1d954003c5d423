#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/torch/text_data.hpp"
#include "sluice/torch/vit_config.hpp"

namespace sluice::gpt {

/// Size of an image in patches.
struct ImageGrid {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;

  [[nodiscard]] std::uint32_t patches() const noexcept { return rows * columns; }
  friend bool operator==(const ImageGrid&, const ImageGrid&) = default;
};

/// One to three coloured shapes in a row or in a column.
struct Scene {
  struct Shape {
    std::uint32_t colour = 0;
    std::uint32_t kind = 0;
  };

  bool is_column = false;
  std::vector<Shape> shapes;

  /// `red square above blue circle`, from left to right or from top to bottom.
  [[nodiscard]] std::string description() const;
};

/// Images of coloured shapes with their descriptions: something that only who sees the image can know.
///
/// All of it is drawn from counters in integer arithmetic, so it is the same on every machine. The sides
/// of an image are drawn with small ones more often, so that the work of microbatches differs much.
/// Immutable, safe from any thread.
class ShapesData {
 public:
  enum class Part : std::uint8_t { Training, HeldOut };

  /// A target that does not count: what follows a description.
  static constexpr std::int64_t kNoTarget = -100;

  /// @param context bytes of a description, its end included; it decides how many shapes there can be
  /// @throws ConfigError naming `context` if no shape can be described, or a bad field of the config
  ShapesData(const VitConfig& config, std::uint32_t context);

  /// Size of the images of a microbatch. Held-out images are the same at every step.
  [[nodiscard]] ImageGrid grid(Part part, const BatchKey& key) const;
  /// What the image of a row shows.
  [[nodiscard]] Scene scene(Part part, const BatchKey& key, std::uint32_t row) const;
  /// Most shapes of an image.
  [[nodiscard]] std::uint32_t most_shapes() const noexcept { return most_shapes_; }

  /// Draws the images, row by row, each patch by patch.
  /// @param pixels rows * patches * VitConfig::kPatchValues values in [-1, 1]; a patch is pixel by pixel
  ///        red, green and blue
  void images(Part part, const BatchKey& key, std::span<float> pixels) const;

  /// Writes the descriptions. A row is a newline, the description and padding; its targets are the same
  /// moved on by one with a newline as the end, and `kNoTarget` from there on.
  /// Both spans hold rows * context elements, row by row.
  void descriptions(Part part, const BatchKey& key, std::span<std::int64_t> inputs,
                    std::span<std::int64_t> targets) const;

 private:
  VitConfig config_;
  std::uint32_t context_;
  std::uint32_t most_shapes_;
};

}  // namespace sluice::gpt
