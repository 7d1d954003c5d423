#include "sluice/torch/no_pipeline.hpp"

#include <gtest/gtest.h>

#include "sequential_run.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

using test::kMicrobatches;
using test::small_config;
using test::small_text;

TEST(NoPipeline, IsReproducible) {
  NoPipeline first(small_config(), small_text(), kMicrobatches);
  NoPipeline second(small_config(), small_text(), kMicrobatches);
  const std::string untrained = first.parameters_sha256();
  EXPECT_EQ(first.run(IterationKind::Training), second.run(IterationKind::Training));
  EXPECT_EQ(first.parameters_sha256(), second.parameters_sha256());
  EXPECT_NE(first.parameters_sha256(), untrained);
}

TEST(NoPipeline, EvaluatesWithoutTraining) {
  NoPipeline reference(small_config(), small_text(), kMicrobatches);
  const std::string untrained = reference.parameters_sha256();
  const double loss = reference.run(IterationKind::ForwardOnly);
  EXPECT_EQ(reference.run(IterationKind::ForwardOnly), loss);
  EXPECT_EQ(reference.parameters_sha256(), untrained);
  EXPECT_EQ(reference.rank().steps(), 0U);
}

TEST(NoPipeline, RefusesEvaluationWithoutHeldOutText) {
  const auto text = std::make_shared<const TextData>(std::string(20, 'a'), small_config().context);
  NoPipeline reference(small_config(), text, kMicrobatches);
  EXPECT_THROW((void)reference.run(IterationKind::ForwardOnly), ConfigError);
}

TEST(NoPipeline, RefusesBadSettings) {
  GptConfig config = small_config();
  config.width = 0;
  EXPECT_THROW(NoPipeline(config, small_text(), kMicrobatches), ConfigError);
  EXPECT_THROW(NoPipeline(small_config(), small_text(), 0), ConfigError);
}

}  // namespace
}  // namespace sluice::gpt
