#include "sluice/torch/vit_config.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sluice/error.hpp"
#include "sluice/torch/gpt_config.hpp"

namespace sluice::gpt {
namespace {

struct BadField {
  std::string field;
  std::function<void(VitConfig&)> spoil;
};

class VitConfigBadField : public testing::TestWithParam<BadField> {};

TEST(VitConfig, DefaultsAreValid) { EXPECT_NO_THROW(VitConfig{}.validate()); }

TEST_P(VitConfigBadField, IsNamed) {
  GptConfig config;
  config.encoder.emplace();
  GetParam().spoil(*config.encoder);
  try {
    config.validate();
    FAIL() << "accepted a bad " << GetParam().field;
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), GetParam().field);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VitConfigBadField,
    testing::Values(BadField{"encoder-layers", [](VitConfig& config) { config.layers = 0; }},
                    BadField{"encoder-layers", [](VitConfig& config) { config.layers = 4'000'000'000; }},
                    BadField{"encoder-width", [](VitConfig& config) { config.width = 0; }},
                    BadField{"encoder-width", [](VitConfig& config) { config.width = 4'000'000'000; }},
                    BadField{"encoder-heads", [](VitConfig& config) { config.heads = 0; }},
                    BadField{"encoder-heads", [](VitConfig& config) { config.heads = 5; }},
                    BadField{"image-grid", [](VitConfig& config) { config.largest_grid = 1; }},
                    BadField{"image-grid", [](VitConfig& config) { config.largest_grid = 4'000'000'000; }},
                    BadField{"encoder-chunks", [](VitConfig& config) { config.chunks = 3; }}));

}  // namespace
}  // namespace sluice::gpt
