#include "sluice/torch/shapes_data.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "counter_hash.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

struct Colour {
  std::string_view name;
  std::array<std::uint8_t, 3> rgb;
};

constexpr std::array<Colour, 6> kColours{{{"red", {230, 40, 40}},
                                          {"green", {40, 200, 60}},
                                          {"blue", {50, 80, 240}},
                                          {"yellow", {240, 220, 50}},
                                          {"purple", {170, 60, 200}},
                                          {"white", {250, 250, 250}}}};
enum class Kind : std::uint32_t { Square, Circle, Triangle, Cross };
constexpr std::array<std::string_view, 4> kKinds{"square", "circle", "triangle", "cross"};
constexpr std::string_view kAbove = " above ";
constexpr std::string_view kBeside = " left of ";
constexpr std::uint32_t kMostShapes = 3;
constexpr std::uint32_t kDarkest = 64;       // background levels are below it
constexpr std::uint32_t kSmallestShape = 4;  // in pixels; below it kinds look alike
constexpr std::int64_t kNewline = '\n';

constexpr std::size_t kLongestShape =
    std::ranges::max(kColours, {}, [](const Colour& colour) { return colour.name.size(); }).name.size() + 1 +
    std::ranges::max(kKinds, {}, &std::string_view::size).size();
constexpr std::size_t kLongestRelation = std::max(kAbove.size(), kBeside.size());

/// Most bytes that so many shapes are described by, the end included.
constexpr std::size_t longest_description(std::size_t shapes) {
  return shapes * kLongestShape + (shapes - 1) * kLongestRelation + 1;
}

std::uint32_t shapes_that_fit(std::uint32_t context) {
  std::uint32_t shapes = 0;
  while (shapes < kMostShapes && longest_description(shapes + 1) <= context) ++shapes;
  if (shapes > 0) return shapes;
  throw ConfigError("context", "must be at least " + std::to_string(longest_description(1)) +
                                   ", the bytes that describe one shape");
}

/// Random numbers of one microbatch or of one of its rows.
class Draws {
 public:
  enum class Use : std::uint64_t { Grid, Scene, Image };

  Draws(ShapesData::Part part, const BatchKey& key, Use use, std::uint64_t row) {
    const bool held_out = part == ShapesData::Part::HeldOut;
    seed_ = counter_hash({counter(held_out ? RandomUse::HeldOutImages : RandomUse::TrainingImages), key.seed,
                          held_out ? 0 : key.step, key.microbatch, static_cast<std::uint64_t>(use), row});
  }

  /// Uniform in [0, count).
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(counter_hash({seed_, next_++}) % count);
  }

 private:
  std::uint64_t seed_ = 0;
  std::uint64_t next_ = 0;
};

/// A square of pixels that a shape fills.
struct Box {
  std::int32_t left = 0;
  std::int32_t top = 0;
  std::int32_t side = 0;
};

/// @param x, y of a pixel of the box, in [0, side)
bool covers(Kind kind, std::int32_t x, std::int32_t y, std::int32_t side) {
  // Distances from the middle, doubled so that they are whole.
  const std::int32_t across = std::abs(2 * x + 1 - side);
  const std::int32_t along = std::abs(2 * y + 1 - side);
  switch (kind) {
    case Kind::Square:
      return true;
    case Kind::Circle:
      return across * across + along * along <= side * side;
    case Kind::Triangle:  // its tip is at the top
      return across <= y;
    case Kind::Cross:
      return 3 * std::min(across, along) <= side;
  }
  return false;
}

/// Pixels of one image, in the order of its patches.
class Canvas {
 public:
  Canvas(const ImageGrid& grid, std::span<float> pixels) : grid_(grid), pixels_(pixels) {}

  [[nodiscard]] std::int32_t width() const {
    return static_cast<std::int32_t>(grid_.columns * VitConfig::kPatchSide);
  }
  [[nodiscard]] std::int32_t height() const {
    return static_cast<std::int32_t>(grid_.rows * VitConfig::kPatchSide);
  }

  void fill(std::uint32_t level) { std::ranges::fill(pixels_, value(level)); }

  void draw(Kind kind, const std::array<std::uint8_t, 3>& rgb, const Box& box) {
    for (std::int32_t y = 0; y < box.side; ++y) {
      for (std::int32_t x = 0; x < box.side; ++x) {
        if (covers(kind, x, y, box.side)) set(box.left + x, box.top + y, rgb);
      }
    }
  }

 private:
  static float value(std::uint32_t level) { return static_cast<float>(level) / 127.5F - 1.0F; }

  void set(std::int32_t x, std::int32_t y, const std::array<std::uint8_t, 3>& rgb) {
    constexpr auto side = static_cast<std::int32_t>(VitConfig::kPatchSide);
    const std::int32_t patch = (y / side) * static_cast<std::int32_t>(grid_.columns) + x / side;
    const std::int32_t pixel = (y % side) * side + x % side;
    const auto first = static_cast<std::size_t>((patch * side * side + pixel) * 3);
    for (std::size_t i = 0; i < rgb.size(); ++i) pixels_[first + i] = value(rgb[i]);
  }

  ImageGrid grid_;
  std::span<float> pixels_;
};

/// Places a shape somewhere in its share of the image.
Box place(Draws& draws, bool is_column, std::int32_t width, std::int32_t height, std::int32_t share,
          std::int32_t shares) {
  const std::int32_t wide = is_column ? width : width / shares;
  const std::int32_t high = is_column ? height / shares : height;
  const std::int32_t largest = std::min(wide, high);
  const std::int32_t smallest = std::max<std::int32_t>(kSmallestShape, (2 * largest + 2) / 3);
  Box box;
  box.side =
      smallest + static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(largest - smallest) + 1));
  box.left = static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(wide - box.side) + 1));
  box.top = static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(high - box.side) + 1));
  (is_column ? box.top : box.left) += share * (is_column ? high : wide);
  return box;
}

}  // namespace

std::string Scene::description() const {
  std::string text;
  for (const Shape& shape : shapes) {
    if (!text.empty()) text += is_column ? kAbove : kBeside;
    text += std::string(kColours[shape.colour].name) + " " + std::string(kKinds[shape.kind]);
  }
  return text;
}

ShapesData::ShapesData(const VitConfig& config, std::uint32_t context)
    : config_(config), context_(context), most_shapes_(shapes_that_fit(context)) {
  config_.validate();
}

ImageGrid ShapesData::grid(Part part, const BatchKey& key) const {
  Draws draws(part, key, Draws::Use::Grid, 0);
  const std::uint32_t sizes = config_.largest_grid - VitConfig::kSmallestGrid + 1;
  const auto side = [&] {
    const std::uint32_t one = draws.below(sizes);
    return VitConfig::kSmallestGrid + std::min(one, draws.below(sizes));
  };
  const std::uint32_t rows = side();
  return {rows, side()};
}

Scene ShapesData::scene(Part part, const BatchKey& key, std::uint32_t row) const {
  Draws draws(part, key, Draws::Use::Scene, row);
  Scene scene;
  scene.is_column = draws.below(2) == 1;
  scene.shapes.resize(1 + draws.below(most_shapes_));
  for (Scene::Shape& shape : scene.shapes) {
    shape.colour = draws.below(kColours.size());
    shape.kind = draws.below(kKinds.size());
  }
  return scene;
}

void ShapesData::images(Part part, const BatchKey& key, std::span<float> pixels) const {
  const ImageGrid size = grid(part, key);
  const std::size_t values = std::size_t{size.patches()} * VitConfig::kPatchValues;
  for (std::uint32_t row = 0; row * values < pixels.size(); ++row) {
    const Scene shown = scene(part, key, row);
    const auto shares = static_cast<std::int32_t>(shown.shapes.size());
    Draws draws(part, key, Draws::Use::Image, row);
    Canvas canvas(size, pixels.subspan(row * values, values));
    canvas.fill(draws.below(kDarkest));
    for (std::int32_t share = 0; share < shares; ++share) {
      const Scene::Shape& shape = shown.shapes[static_cast<std::size_t>(share)];
      const Box box = place(draws, shown.is_column, canvas.width(), canvas.height(), share, shares);
      canvas.draw(static_cast<Kind>(shape.kind), kColours[shape.colour].rgb, box);
    }
  }
}

void ShapesData::descriptions(Part part, const BatchKey& key, std::span<std::int64_t> inputs,
                              std::span<std::int64_t> targets) const {
  std::ranges::fill(inputs, kNewline);
  std::ranges::fill(targets, kNoTarget);
  for (std::uint32_t row = 0; std::size_t{row} * context_ < inputs.size(); ++row) {
    const std::string text = scene(part, key, row).description();
    const std::size_t first = std::size_t{row} * context_;
    for (std::size_t i = 0; i < text.size(); ++i) {
      targets[first + i] = static_cast<unsigned char>(text[i]);
      inputs[first + i + 1] = static_cast<unsigned char>(text[i]);
    }
    targets[first + text.size()] = kNewline;
  }
}

}  // namespace sluice::gpt
