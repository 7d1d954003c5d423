// The multimodal model in training: ranks, stages and data together.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "sequential_run.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/no_pipeline.hpp"
#include "sluice/torch/shapes_data.hpp"
#include "sluice/torch/tensor_payload.hpp"
#include "sluice/torch/training_rank.hpp"

namespace sluice::gpt {
namespace {

using test::kMicrobatches;
using test::Order;
using test::SequentialRun;

constexpr int kSteps = 3;

GptConfig vit_config() {
  GptConfig config = test::small_config();
  config.layers = 3;
  config.context = 16;
  config.encoder = VitConfig{2, 12, 2, 5, 0};
  return config;
}

SequentialRun make_run(const GptConfig& config, const Pipeline& pipeline) {
  return {config, pipeline, nullptr};
}

struct Result {
  std::vector<double> losses;
  std::string sha256;

  friend bool operator==(const Result&, const Result&) = default;
};

Result train(const GptConfig& config, const Pipeline& pipeline, Order order) {
  SequentialRun run = make_run(config, pipeline);
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    run.train(order);
    result.losses.push_back(run.loss());
  }
  result.sha256 = run.sha256();
  return result;
}

Result train_without_pipeline(const GptConfig& config) {
  NoPipeline reference(config, nullptr, kMicrobatches);
  Result result;
  for (int step = 0; step < kSteps; ++step) result.losses.push_back(reference.run(IterationKind::Training));
  result.sha256 = reference.parameters_sha256();
  return result;
}

template <typename Use>
void expect_error(Use use, const std::string& text) {
  try {
    use();
    FAIL() << "no error; expected: " << text;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

struct Variant {
  const char* name;
  double dropout;
  bool tied;
  std::uint32_t encoder_chunks;
};

class VitBitwiseEqual : public testing::TestWithParam<Variant> {};

TEST_P(VitBitwiseEqual, ForEveryCutAndOrder) {
  GptConfig config = vit_config();
  config.dropout = GetParam().dropout;
  config.tied_embeddings = GetParam().tied;
  config.encoder->chunks = GetParam().encoder_chunks;
  const Result expected = train_without_pipeline(config);
  std::vector<Pipeline> cuts{Pipeline::chain(2, kMicrobatches), Pipeline::chain(3, kMicrobatches),
                             Pipeline::interleaved(2, 2, kMicrobatches), Pipeline::v_shape(2, kMicrobatches)};
  if (GetParam().encoder_chunks == 0) {
    cuts.push_back(Pipeline::chain(1, kMicrobatches));
    cuts.push_back(Pipeline::chain(5, kMicrobatches));
  }
  for (const Pipeline& cut : cuts) {
    for (const Order order : {Order::WholeInOrder, Order::SplitReversed}) {
      EXPECT_EQ(train(config, cut, order), expected)
          << cut.stages() << " stages, " << cut.chunks() << " chunks, order " << static_cast<int>(order);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, VitBitwiseEqual,
                         testing::Values(Variant{"plain", 0.0, false, 0}, Variant{"all", 0.2, true, 0},
                                         Variant{"encoder_apart", 0.0, false, 1},
                                         Variant{"all_encoder_apart", 0.2, true, 1}),
                         [](const auto& variant) { return variant.param.name; });

TEST(VitTraining, AccumulationOutOfOrderShowsInTheParameters) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  EXPECT_NE(train(vit_config(), pipeline, Order::WholeReversed).sha256,
            train(vit_config(), pipeline, Order::WholeInOrder).sha256);
}

TEST(VitTraining, EverySettingOfTheEncoderShowsInTheParameters) {
  const std::string base = train_without_pipeline(vit_config()).sha256;
  const auto changed = [&](auto change) {
    GptConfig config = vit_config();
    change(config);
    return train_without_pipeline(config).sha256 != base;
  };
  EXPECT_FALSE(changed([](GptConfig&) {}));
  EXPECT_FALSE(changed([](GptConfig& config) { config.encoder->chunks = 1; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.encoder->layers = 1; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.encoder->width = 16; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.encoder->heads = 3; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.encoder->largest_grid = 6; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.dropout = 0.1; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.seed = 2; }));
}

TEST(VitTraining, TheLossFallsBelowWhatWhoDoesNotSeeTheImagesCanReach) {
  GptConfig config = vit_config();
  config.width = config.encoder->width = 32;
  config.layers = 2;
  config.micro_batch_size = 8;
  config.learning_rate = 1e-2;
  NoPipeline model(config, nullptr, 8);
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < 150; ++step) {
    last = model.run(IterationKind::Training);
    if (step == 0) first = last;
  }
  EXPECT_NEAR(first, std::log(256.0), 0.3);
  // One of 24 shapes, in 13.08 bytes on average.
  const double blind = std::log(24.0) / 13.08;
  EXPECT_LT(last, 0.8 * blind);
  EXPECT_LT(model.run(IterationKind::ForwardOnly), 0.8 * blind);
}

TEST(VitTraining, EvaluationLeavesTheTrainingAsItIs) {
  GptConfig config = vit_config();
  config.dropout = 0.2;
  const Pipeline pipeline = Pipeline::chain(3, kMicrobatches);
  SequentialRun run = make_run(config, pipeline);
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    const double held_out = run.evaluate();
    EXPECT_EQ(run.evaluate(), held_out);
    run.train(Order::SplitReversed);
    result.losses.push_back(run.loss());
    EXPECT_NE(run.evaluate(), held_out);
  }
  result.sha256 = run.sha256();
  EXPECT_EQ(result, train(config, pipeline, Order::WholeInOrder));
}

TEST(VitTraining, EveryRankSeesTheNormOfTheWholeModel) {
  SequentialRun one = make_run(vit_config(), Pipeline::chain(1, kMicrobatches));
  SequentialRun bent = make_run(vit_config(), Pipeline::v_shape(2, kMicrobatches));
  for (int step = 0; step < kSteps; ++step) {
    one.train(Order::WholeInOrder);
    bent.train(Order::WholeInOrder);
    EXPECT_GT(one.rank(0).gradient_norm(), 0.0);
    for (const TrainingRank& rank : bent.ranks())
      EXPECT_EQ(rank.gradient_norm(), one.rank(0).gradient_norm());
  }
}

TEST(VitTraining, AMicrobatchIsKeptUntilItsLastPass) {
  SequentialRun run = make_run(vit_config(), Pipeline::chain(1, kMicrobatches));
  run.begin(IterationKind::Training);
  run.forward(0);
  EXPECT_EQ(run.rank(0).saved_microbatches(), 1U);
  run.backward(0, /*whole=*/false);
  EXPECT_EQ(run.rank(0).saved_microbatches(), 1U);
  run.weight_grad(0);
  EXPECT_EQ(run.rank(0).saved_microbatches(), 0U);
}

/// Activations that the first chunk sends.
TensorShape sent_by_first(SequentialRun& run, Microbatch microbatch) {
  std::vector<host::Payload> outputs(1);
  run.stage(0).forward(run.context(0, microbatch), {}, outputs);
  return host::shape_of(*outputs.front().front());
}

TEST(VitTraining, MessagesHaveTheSizeOfTheirMicrobatchsImages) {
  GptConfig config = vit_config();
  const ShapesData data(*config.encoder, config.context);
  for (const std::uint32_t encoder_chunks : {0U, 1U}) {
    config.encoder->chunks = encoder_chunks;
    SequentialRun run = make_run(config, Pipeline::chain(2, kMicrobatches));
    run.begin(IterationKind::ForwardOnly);
    EXPECT_EQ(run.stage(0).output_shape(0).dtype_bits, 0);
    std::set<std::int64_t> sizes;
    for (Microbatch m = 0; m < kMicrobatches; ++m) {
      const TensorShape shape = sent_by_first(run, m);
      const std::uint32_t patches = data.grid(ShapesData::Part::HeldOut, {config.seed, 0, m}).patches();
      ASSERT_EQ(shape.rank, 3);
      EXPECT_EQ(shape.extent[0], config.micro_batch_size);
      EXPECT_EQ(shape.extent[1], encoder_chunks == 1 ? patches : patches + config.context);
      EXPECT_EQ(shape.extent[2], config.width);
      sizes.insert(shape.extent[1]);
    }
    EXPECT_GT(sizes.size(), 1U);
  }
}

TEST(VitTraining, RefusesAnActivationOfAnotherShape) {
  SequentialRun run = make_run(vit_config(), Pipeline::chain(2, kMicrobatches));
  run.begin(IterationKind::Training);
  const auto receive = [&](const at::Tensor& activation) {
    std::vector<host::Payload> inputs(1);
    put_single(activation, inputs, "activation");
    run.stage(1).forward(run.context(1, 0), inputs, {});
  };
  expect_error(
      [&] {
        receive(at::zeros({2, 3, 16}));
      },
      "an activation is Float[2, 3, 16] instead of Float[2, ");
  expect_error([&] { receive(at::zeros({2, 16})); }, "an activation is Float[2, 16]");
  expect_error([&] { receive(at::zeros({2, 3, 16}, at::kDouble)); }, "an activation is Double[2, 3, 16]");
}

TEST(VitTraining, OnlyAModelWithAnEncoderNeedsNoText) {
  expect_error([] { (void)make_run(test::small_config(), Pipeline::chain(1, kMicrobatches)); }, "text: ");
}

TEST(VitTraining, RefusesAModelThatDoesNotFit) {
  const auto make = [](auto change, std::uint32_t stages) {
    return [change, stages] {
      GptConfig config = vit_config();
      change(config);
      (void)make_run(config, Pipeline::chain(stages, kMicrobatches));
    };
  };
  expect_error(make([](GptConfig&) {}, 6), "stages: 6 chunks");
  expect_error(make([](GptConfig& config) { config.encoder->chunks = 2; }, 2), "encoder-chunks: ");
  expect_error(make([](GptConfig& config) { config.encoder->heads = 5; }, 1), "encoder-heads: ");
  expect_error(make([](GptConfig& config) { config.context = 15; }, 1), "context: ");
}

}  // namespace
}  // namespace sluice::gpt
