#include "sluice/torch/gpt_config.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

struct BadField {
  std::string field;
  std::function<void(GptConfig&)> spoil;
};

class GptConfigBadField : public testing::TestWithParam<BadField> {};

TEST(GptConfig, DefaultsAreValid) { EXPECT_NO_THROW(GptConfig{}.validate()); }

TEST_P(GptConfigBadField, IsNamed) {
  GptConfig config;
  GetParam().spoil(config);
  try {
    config.validate();
    FAIL() << "accepted a bad " << GetParam().field;
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), GetParam().field);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GptConfigBadField,
    testing::Values(
        BadField{"layers", [](GptConfig& config) { config.layers = 0; }},
        BadField{"layers", [](GptConfig& config) { config.layers = 4'000'000'000; }},
        BadField{"width", [](GptConfig& config) { config.width = 0; }},
        BadField{"width", [](GptConfig& config) { config.width = 4'000'000'000; }},
        BadField{"heads", [](GptConfig& config) { config.heads = 0; }},
        BadField{"heads", [](GptConfig& config) { config.heads = 5; }},
        BadField{"context", [](GptConfig& config) { config.context = 0; }},
        BadField{"vocabulary", [](GptConfig& config) { config.vocabulary = 255; }},
        BadField{"micro-batch-size", [](GptConfig& config) { config.micro_batch_size = 0; }},
        BadField{"dropout", [](GptConfig& config) { config.dropout = 1.0; }},
        BadField{"dropout", [](GptConfig& config) { config.dropout = -0.1; }},
        BadField{"dropout",
                 [](GptConfig& config) { config.dropout = std::numeric_limits<double>::quiet_NaN(); }},
        BadField{"lr", [](GptConfig& config) { config.learning_rate = 0.0; }},
        BadField{"lr",
                 [](GptConfig& config) { config.learning_rate = std::numeric_limits<double>::infinity(); }},
        BadField{"beta1", [](GptConfig& config) { config.beta1 = 1.0; }},
        BadField{"beta2", [](GptConfig& config) { config.beta2 = -1.0; }},
        BadField{"epsilon", [](GptConfig& config) { config.epsilon = 0.0; }},
        BadField{"weight-decay", [](GptConfig& config) { config.weight_decay = -0.1; }},
        BadField{"clip", [](GptConfig& config) { config.clip_norm = -1.0; }}));

TEST(DivideLayers, SharesDifferByOneAtMostAndCoverAll) {
  EXPECT_EQ(divide_layers(4, 1), (std::vector<LayerRange>{{0, 4}}));
  EXPECT_EQ(divide_layers(4, 4), (std::vector<LayerRange>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(divide_layers(7, 3), (std::vector<LayerRange>{{0, 3}, {3, 2}, {5, 2}}));
}

TEST(LayerRange, KnowsTheEndsItHolds) {
  EXPECT_TRUE((LayerRange{0, 2}).has_first());
  EXPECT_TRUE((LayerRange{1, 2}).has_last(3));
  EXPECT_FALSE((LayerRange{1, 2}).has_first());
  EXPECT_FALSE((LayerRange{0, 2}).has_last(3));
  EXPECT_FALSE((LayerRange{0, 0}).has_first());
  EXPECT_FALSE((LayerRange{3, 0}).has_last(3));
}

TEST(DivideLayers, RefusesAChunkWithoutLayers) {
  for (const std::uint32_t chunks : {0U, 5U}) {
    try {
      (void)divide_layers(4, chunks);
      FAIL() << "divided 4 layers over " << chunks << " chunks";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), "stages");
    }
  }
}

}  // namespace
}  // namespace sluice::gpt
