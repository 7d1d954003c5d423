#include "sluice/torch/shapes_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sluice/error.hpp"
#include "sluice/torch/parameter_digest.hpp"

namespace sluice::gpt {
namespace {

using Part = ShapesData::Part;

constexpr std::uint32_t kContext = 64;
constexpr std::uint32_t kRows = 3;
constexpr BatchKey kKey{1, 2, 3};

VitConfig grid_up_to(std::uint32_t largest) {
  VitConfig config;
  config.largest_grid = largest;
  return config;
}

ShapesData data(std::uint32_t context = kContext) { return {VitConfig{}, context}; }

std::vector<float> images(const ShapesData& shapes, Part part, const BatchKey& key,
                          std::uint32_t rows = kRows) {
  std::vector<float> pixels(std::size_t{rows} * shapes.grid(part, key).patches() * VitConfig::kPatchValues);
  shapes.images(part, key, pixels);
  return pixels;
}

struct Rows {
  std::vector<std::int64_t> inputs = std::vector<std::int64_t>(kRows * kContext);
  std::vector<std::int64_t> targets = std::vector<std::int64_t>(kRows * kContext);
};

Rows descriptions(Part part, const BatchKey& key) {
  Rows rows;
  data().descriptions(part, key, rows.inputs, rows.targets);
  return rows;
}

std::vector<std::uint32_t> patches_of(const ShapesData& shapes, std::uint32_t microbatches) {
  std::vector<std::uint32_t> patches;
  for (std::uint32_t microbatch = 0; microbatch < microbatches; ++microbatch)
    patches.push_back(shapes.grid(Part::Training, {1, 0, microbatch}).patches());
  return patches;
}

TEST(ShapesData, ImageSizesStayInRangeAndReachItsEnds) {
  std::set<std::uint32_t> sides;
  for (std::uint32_t microbatch = 0; microbatch < 1000; ++microbatch) {
    const ImageGrid grid = ShapesData(grid_up_to(5), kContext).grid(Part::Training, {1, 0, microbatch});
    sides.insert(grid.rows);
    sides.insert(grid.columns);
  }
  EXPECT_THAT(sides, testing::ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(patches_of(ShapesData(grid_up_to(2), kContext), 20), testing::Each(4));
}

TEST(ShapesData, ImageSizesAreSkewed) {
  std::vector<std::uint32_t> patches = patches_of(data(), 1000);
  std::ranges::sort(patches);
  // Sides are the lesser of two uniform draws from 2 to 10: 4.52 on average, so 20.4 patches.
  double sum = 0;
  for (const std::uint32_t each : patches) sum += each;
  EXPECT_NEAR(sum / 1000, 20.4, 2.0);
  EXPECT_LE(patches[500], 20U);
  EXPECT_GE(patches[980], 60U);
  EXPECT_LE(patches[20], 6U);
}

TEST(ShapesData, EveryTrainingStepHasMicrobatchesOfSeveralSizes) {
  for (std::uint64_t step = 0; step < 50; ++step) {
    std::set<std::uint32_t> sizes;
    for (std::uint32_t microbatch = 0; microbatch < 16; ++microbatch)
      sizes.insert(data().grid(Part::Training, {1, step, microbatch}).patches());
    EXPECT_GE(*sizes.rbegin(), 3 * *sizes.begin()) << "step " << step;
  }
}

TEST(ShapesData, EverythingDependsOnEachPartOfTheKeyAndOnNothingElse) {
  const Rows rows = descriptions(Part::Training, kKey);
  const std::vector<float> pixels = images(data(), Part::Training, kKey);
  EXPECT_EQ(descriptions(Part::Training, kKey).inputs, rows.inputs);
  EXPECT_EQ(images(data(), Part::Training, kKey), pixels);
  for (const BatchKey& other : {BatchKey{9, 2, 3}, BatchKey{1, 9, 3}, BatchKey{1, 2, 9}}) {
    EXPECT_NE(descriptions(Part::Training, other).inputs, rows.inputs);
    EXPECT_NE(images(data(), Part::Training, other), pixels);
  }
  EXPECT_NE(descriptions(Part::HeldOut, kKey).inputs, rows.inputs);
}

TEST(ShapesData, ARowDoesNotDependOnHowManyThereAre) {
  const std::vector<float> one = images(data(), Part::Training, kKey, 1);
  const std::vector<float> all = images(data(), Part::Training, kKey);
  EXPECT_TRUE(std::ranges::equal(one, std::span(all).first(one.size())));
  EXPECT_NE(one, std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(one.size()),
                                    all.begin() + 2 * static_cast<std::ptrdiff_t>(one.size())));
}

TEST(ShapesData, HeldOutImagesAreTheSameAtEveryStep) {
  const BatchKey later{kKey.seed, 40, kKey.microbatch};
  EXPECT_EQ(data().grid(Part::HeldOut, later), data().grid(Part::HeldOut, kKey));
  EXPECT_EQ(images(data(), Part::HeldOut, later), images(data(), Part::HeldOut, kKey));
  EXPECT_EQ(descriptions(Part::HeldOut, later).targets, descriptions(Part::HeldOut, kKey).targets);
}

TEST(ShapesData, IsTheSameOnEveryMachine) {
  const std::vector<float> pixels = images(data(), Part::Training, kKey);
  const auto digest = sha256(std::as_bytes(std::span(pixels)));
  const std::vector<std::uint8_t> first_bytes(digest.begin(), digest.begin() + 4);
  EXPECT_THAT(first_bytes, testing::ElementsAre(0xda, 0xa9, 0x98, 0x9a));
  EXPECT_EQ(data().grid(Part::Training, kKey), (ImageGrid{5, 9}));
  EXPECT_EQ(data().scene(Part::Training, kKey, 0).description(), "white circle left of blue triangle");
}

TEST(ShapesData, ADescriptionNamesTheShapesInOrder) {
  EXPECT_EQ((Scene{true, {{0, 0}, {2, 1}}}).description(), "red square above blue circle");
  EXPECT_EQ((Scene{false, {{3, 2}, {5, 3}, {4, 0}}}).description(),
            "yellow triangle left of white cross left of purple square");
  EXPECT_EQ((Scene{false, {{1, 2}}}).description(), "green triangle");
}

TEST(ShapesData, TheContextDecidesHowManyShapesThereAre) {
  std::map<std::uint32_t, std::uint32_t> most;
  for (const std::uint32_t context : {16U, 39U, 40U, 63U, 64U, 1000U})
    most[context] = data(context).most_shapes();
  EXPECT_THAT(most, testing::ElementsAre(testing::Pair(16, 1), testing::Pair(39, 1), testing::Pair(40, 2),
                                         testing::Pair(63, 2), testing::Pair(64, 3), testing::Pair(1000, 3)));
  std::set<std::size_t> counts;
  for (std::uint32_t row = 0; row < 100; ++row)
    counts.insert(data(40).scene(Part::Training, kKey, row).shapes.size());
  EXPECT_THAT(counts, testing::ElementsAre(1, 2));
}

TEST(ShapesData, RefusesAContextTooShortForAShape) {
  try {
    (void)data(15);
    FAIL() << "accepted a context of 15";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "context");
    EXPECT_THAT(error.what(), testing::HasSubstr("at least 16"));
  }
}

TEST(ShapesData, EveryDescriptionFitsTheShortestContextForIt) {
  for (const std::uint32_t context : {16U, 40U, 64U}) {
    for (std::uint32_t row = 0; row < 500; ++row)
      ASSERT_LT(data(context).scene(Part::Training, kKey, row).description().size(), context);
  }
}

TEST(ShapesData, TargetsAreTheDescriptionAndItsEnd) {
  const Rows rows = descriptions(Part::Training, kKey);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const std::string text = data().scene(Part::Training, kKey, row).description() + "\n";
    const auto inputs = std::span(rows.inputs).subspan(row * kContext, kContext);
    const auto targets = std::span(rows.targets).subspan(row * kContext, kContext);
    EXPECT_EQ(std::string(targets.begin(), targets.begin() + static_cast<std::ptrdiff_t>(text.size())), text);
    EXPECT_THAT(targets.subspan(text.size()), testing::Each(ShapesData::kNoTarget));
    EXPECT_EQ(inputs.front(), '\n');
    for (std::size_t i = 1; i < text.size(); ++i) EXPECT_EQ(inputs[i], targets[i - 1]);
  }
}

/// Colours of an image that are not its background, as `red * 65536 + green * 256 + blue`.
std::set<int> colours_of(std::span<const float> image) {
  std::map<int, int> seen;
  for (std::size_t i = 0; i < image.size(); i += 3) {
    int colour = 0;
    for (std::size_t j = 0; j < 3; ++j)
      colour = 256 * colour + static_cast<int>((image[i + j] + 1.0F) * 127.5F + 0.5F);
    ++seen[colour];
  }
  std::set<int> colours;
  for (const auto& [colour, count] : seen) {
    const bool is_grey = colour % 256 == colour / 256 % 256 && colour % 256 == colour / 65536;
    if (!is_grey || colour % 256 >= 64) colours.insert(colour);
  }
  return colours;
}

TEST(ShapesData, AnImageShowsTheColoursOfItsDescriptionAndNoOther) {
  const std::map<std::string, int> rgb{{"red", 0xe62828},    {"green", 0x28c83c},  {"blue", 0x3250f0},
                                       {"yellow", 0xf0dc32}, {"purple", 0xaa3cc8}, {"white", 0xfafafa}};
  for (std::uint32_t microbatch = 0; microbatch < 30; ++microbatch) {
    const BatchKey key{5, 0, microbatch};
    const std::vector<float> pixels = images(data(), Part::Training, key);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const std::string text = data().scene(Part::Training, key, row).description();
      std::set<int> named;
      for (const auto& [name, colour] : rgb) {
        if (text.find(name) != std::string::npos) named.insert(colour);
      }
      const std::size_t size = pixels.size() / kRows;
      EXPECT_EQ(colours_of(std::span(pixels).subspan(row * size, size)), named) << text;
    }
  }
}

/// Mean place, in patches from the top and the left, of the pixels that are red.
std::pair<double, double> middle_of_red(std::span<const float> image, const ImageGrid& grid) {
  double down = 0;
  double across = 0;
  double count = 0;
  for (std::size_t i = 0; i < image.size(); i += 3) {
    if (image[i] < 0.5F || image[i + 1] > 0.0F || image[i + 2] > 0.0F) continue;
    const std::size_t patch = i / VitConfig::kPatchValues;
    down += static_cast<double>(patch / grid.columns);
    across += static_cast<double>(patch % grid.columns);
    ++count;
  }
  return {down / count / grid.rows, across / count / grid.columns};
}

TEST(ShapesData, ShapesLieWhereTheDescriptionSays) {
  std::map<std::string, int> seen;
  for (std::uint32_t microbatch = 0; microbatch < 400; ++microbatch) {
    const BatchKey key{6, 0, microbatch};
    const Scene scene = data().scene(Part::Training, key, 0);
    if (scene.shapes.size() != 2 || (scene.shapes[0].colour == 0) == (scene.shapes[1].colour == 0)) continue;
    const auto [down, across] =
        middle_of_red(images(data(), Part::Training, key, 1), data().grid(Part::Training, key));
    const bool red_first = scene.shapes[0].colour == 0;
    const double along = scene.is_column ? down : across;
    EXPECT_EQ(along < 0.4, red_first) << scene.description();
    ++seen[std::string(scene.is_column ? "column" : "row") + (red_first ? ", red first" : ", red last")];
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST(ShapesData, KindsAreToldApartByTheirPixels) {
  // Of all images with one shape, the share of the box that is covered differs by kind.
  std::map<std::uint32_t, double> least;
  std::map<std::uint32_t, double> most;
  for (std::uint32_t microbatch = 0; microbatch < 600; ++microbatch) {
    const BatchKey key{7, 0, microbatch};
    const Scene scene = data(16).scene(Part::Training, key, 0);
    const ImageGrid grid = data(16).grid(Part::Training, key);
    if (grid.patches() < 16) continue;
    const std::vector<float> pixels = images(data(16), Part::Training, key, 1);
    std::set<std::size_t> lines;
    double covered = 0;
    for (std::size_t i = 0; i < pixels.size(); i += 3) {
      if (std::max({pixels[i], pixels[i + 1], pixels[i + 2]}) < 0.0F) continue;
      const std::size_t pixel = i % VitConfig::kPatchValues / 3;
      lines.insert(i / VitConfig::kPatchValues / grid.columns * VitConfig::kPatchSide +
                   pixel / VitConfig::kPatchSide);
      ++covered;
    }
    const auto side = static_cast<double>(lines.size());
    const double share = covered / (side * side);
    const std::uint32_t kind = scene.shapes.front().kind;
    most[kind] = std::max(most[kind], share);
    least[kind] = least.contains(kind) ? std::min(least[kind], share) : share;
  }
  ASSERT_EQ(least.size(), 4U);
  EXPECT_EQ(least[0], 1.0);  // square
  EXPECT_EQ(most[0], 1.0);
  EXPECT_NEAR((least[1] + most[1]) / 2, 0.79, 0.05);  // circle: pi / 4
  EXPECT_LT(most[1], least[0]);
  EXPECT_NEAR((least[2] + most[2]) / 2, 0.52, 0.06);  // triangle
  EXPECT_LT(most[2], least[1]);
  EXPECT_NEAR((least[3] + most[3]) / 2, 0.56, 0.06);  // cross: 5 / 9
}

}  // namespace
}  // namespace sluice::gpt
