#include "sluice/torch/training_rank.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sequential_run.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/no_pipeline.hpp"

namespace sluice::gpt {
namespace {

using test::kMicrobatches;
using test::Order;
using test::SequentialRun;
using test::small_config;
using test::small_text;

constexpr int kSteps = 3;

struct Result {
  std::vector<double> losses;
  std::string sha256;

  friend bool operator==(const Result&, const Result&) = default;
};

Result train(const GptConfig& config, const Pipeline& pipeline, Order order) {
  SequentialRun run(config, pipeline);
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    run.train(order);
    result.losses.push_back(run.loss());
  }
  result.sha256 = run.sha256();
  return result;
}

Result train_without_pipeline(const GptConfig& config) {
  NoPipeline reference(config, small_text(), kMicrobatches);
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
  double clip_norm;
};

class BitwiseEqual : public testing::TestWithParam<Variant> {
 protected:
  static GptConfig config() {
    GptConfig config = small_config();
    config.dropout = GetParam().dropout;
    config.tied_embeddings = GetParam().tied;
    config.clip_norm = GetParam().clip_norm;
    return config;
  }
};

TEST_P(BitwiseEqual, ForEveryCutAndOrder) {
  const Result expected = train_without_pipeline(config());
  const std::vector<Pipeline> cuts{
      Pipeline::chain(1, kMicrobatches),          Pipeline::chain(2, kMicrobatches),
      Pipeline::chain(3, kMicrobatches),          Pipeline::chain(4, kMicrobatches),
      Pipeline::interleaved(2, 2, kMicrobatches), Pipeline::v_shape(2, kMicrobatches),
  };
  for (const Pipeline& cut : cuts) {
    for (const Order order : {Order::WholeInOrder, Order::SplitInOrder, Order::SplitReversed}) {
      const Result result = train(config(), cut, order);
      EXPECT_EQ(result, expected) << cut.stages() << " stages, " << cut.chunks() << " chunks, order "
                                  << static_cast<int>(order);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, BitwiseEqual,
                         testing::Values(Variant{"plain", 0.0, false, 0.5},
                                         Variant{"dropout", 0.2, false, 0.5}, Variant{"tied", 0.0, true, 0.5},
                                         Variant{"all", 0.2, true, 0.1},
                                         Variant{"unclipped", 0.0, true, 0.0}),
                         [](const auto& variant) { return variant.param.name; });

TEST(TrainingRank, AccumulationOutOfOrderShowsInTheParameters) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  EXPECT_NE(train(small_config(), pipeline, Order::WholeReversed).sha256,
            train(small_config(), pipeline, Order::WholeInOrder).sha256);
}

TEST(TrainingRank, EverySettingOfTheModelShowsInTheParameters) {
  const std::string base = train_without_pipeline(small_config()).sha256;
  const auto changed = [&](auto change) {
    GptConfig config = small_config();
    change(config);
    return train_without_pipeline(config).sha256 != base;
  };
  EXPECT_FALSE(changed([](GptConfig&) {}));
  EXPECT_TRUE(changed([](GptConfig& config) { config.dropout = 0.1; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.seed = 2; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.tied_embeddings = true; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.clip_norm = 0.01; }));
  EXPECT_TRUE(changed([](GptConfig& config) { config.weight_decay = 0.0; }));
}

TEST(TrainingRank, TheLossFalls) {
  GptConfig config = small_config();
  config.learning_rate = 1e-2;
  SequentialRun run(config, Pipeline::chain(2, kMicrobatches));
  run.train(Order::WholeInOrder);
  const double first = run.loss();
  for (int step = 0; step < 30; ++step) run.train(Order::WholeInOrder);
  EXPECT_NEAR(first, std::log(256.0), 0.2);
  EXPECT_LT(run.loss(), first - 1.0);
}

TEST(TrainingRank, EvaluationLeavesTheTrainingAsItIs) {
  GptConfig config = small_config();
  config.dropout = 0.2;
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  SequentialRun run(config, pipeline);
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
  EXPECT_EQ(run.rank(0).steps(), static_cast<std::uint64_t>(kSteps));
}

TEST(TrainingRank, EveryRankSeesTheNormOfTheWholeModel) {
  constexpr int kNormSteps = 10;  // sums in another order agree by chance in some steps
  // In a V the rank of the embedding also holds the head, whose gradient is by far the largest.
  SequentialRun one(small_config(), Pipeline::chain(1, kMicrobatches));
  SequentialRun bent(small_config(), Pipeline::v_shape(2, kMicrobatches));
  for (int step = 0; step < kNormSteps; ++step) {
    one.train(Order::WholeInOrder);
    bent.train(Order::WholeInOrder);
    EXPECT_GT(one.rank(0).gradient_norm(), 0.0);
    for (const TrainingRank& rank : bent.ranks())
      EXPECT_EQ(rank.gradient_norm(), one.rank(0).gradient_norm());
  }
}

TEST(TrainingRank, HoldsOneAccumulatorForEachParameter) {
  SequentialRun run(small_config(), Pipeline::chain(4, kMicrobatches));
  for (TrainingRank& rank : run.ranks()) {
    EXPECT_GT(rank.parameter_bytes(), 0U);
    EXPECT_EQ(rank.gradient_bytes(), rank.parameter_bytes());
  }
  run.train(Order::SplitReversed);
  for (TrainingRank& rank : run.ranks()) EXPECT_EQ(rank.gradient_bytes(), rank.parameter_bytes());
}

TEST(TrainingRank, AMicrobatchIsKeptUntilItsLastPass) {
  SequentialRun run(small_config(), Pipeline::chain(1, kMicrobatches));
  TrainingRank& rank = run.rank(0);
  run.begin(IterationKind::Training);
  run.forward(0);
  run.forward(1);
  EXPECT_EQ(rank.saved_microbatches(), 2U);
  run.backward(0, /*whole=*/true);
  EXPECT_EQ(rank.saved_microbatches(), 1U);
  run.backward(1, /*whole=*/false);
  EXPECT_EQ(rank.saved_microbatches(), 1U);
  run.weight_grad(1);
  EXPECT_EQ(rank.saved_microbatches(), 0U);
  run.begin(IterationKind::ForwardOnly);
  run.forward(0);
  EXPECT_EQ(rank.saved_microbatches(), 0U);
}

TEST(TrainingRank, DeclaresTheShapeOfItsActivations) {
  SequentialRun run(small_config(), Pipeline::chain(2, kMicrobatches));
  const TensorShape shape = run.stage(0).output_shape(0);
  EXPECT_EQ(shape.dtype_bits, 32);
  ASSERT_EQ(shape.rank, 3);
  EXPECT_EQ(shape.extent[0], small_config().micro_batch_size);
  EXPECT_EQ(shape.extent[1], small_config().context);
  EXPECT_EQ(shape.extent[2], small_config().width);
  EXPECT_EQ(run.stage(1).output_shape(0).dtype_bits, 0);
}

TEST(TrainingRank, RefusesPassesOutOfTurn) {
  SequentialRun run(small_config(), Pipeline::chain(1, kMicrobatches));
  run.begin(IterationKind::Training);
  expect_error([&] { run.backward(0, true); }, "no forward was saved for microbatch 0 in slot 0");
  run.forward(0);
  expect_error([&] { run.weight_grad(0); }, "weight gradients before the backward of microbatch 0");
  run.backward(0, true);
  expect_error([&] { run.weight_grad(0); }, "no weight gradients are left for microbatch 0");
}

TEST(TrainingRank, RefusesATaskOfAnotherIterationOrSlot) {
  SequentialRun run(small_config(), Pipeline::chain(1, kMicrobatches));
  run.begin(IterationKind::Training);
  host::TaskContext context = run.context(0, 0);
  context.iteration = 7;
  expect_error([&] { run.stage(0).forward(context, {}, {}); }, "a task of iteration 7 ran in iteration 0");
  context = run.context(0, 0);
  context.slot = kMicrobatches;
  expect_error([&] { run.stage(0).forward(context, {}, {}); }, "slot 4 of 4");
}

TEST(TrainingRank, RefusesAModelThatDoesNotFitThePipeline) {
  expect_error([] { SequentialRun(small_config(), Pipeline::chain(5, kMicrobatches)); }, "stages: 5 chunks");
  const std::vector<std::uint32_t> encoders{1, 1};
  expect_error([&] { SequentialRun(small_config(), Pipeline::joined(encoders, 1, kMicrobatches)); },
               "edges:");
  GptConfig config = small_config();
  config.heads = 3;
  expect_error([&] { SequentialRun(config, Pipeline::chain(1, kMicrobatches)); }, "heads:");
}

TEST(TrainingRank, AnswersForItsOwnChunksOnly) {
  SequentialRun run(small_config(), Pipeline::chain(2, kMicrobatches));
  expect_error([&] { (void)run.rank(0).stage(1); }, "rank 0 does not own chunk 1");
  expect_error([&] { (void)run.rank(0).loss(); }, "rank 0 does not own the last chunk");
  EXPECT_FALSE(run.rank(0).has_loss());
  EXPECT_TRUE(run.rank(1).has_loss());
}

TEST(TrainingRank, AFailedRankEndsTheStepOfTheOthers) {
  const Pipeline pipeline = Pipeline::chain(2, kMicrobatches);
  const auto exchange = std::make_shared<InProcessExchange>(2);
  TrainingRank rank(small_config(), small_text(), exchange, pipeline, 0);
  rank.begin_iteration({});
  auto ending = std::async(std::launch::async, [&] { rank.end_iteration(); });
  exchange->abort("rank 1 failed");
  EXPECT_THROW(ending.get(), Aborted);
}

TEST(TrainingRank, AGradientThatIsNotFiniteIsAnError) {
  GptConfig config = small_config();
  config.learning_rate = 1e30;
  SequentialRun run(config, Pipeline::chain(1, kMicrobatches));
  expect_error(
      [&] {
        for (int step = 0; step < 5; ++step) run.train(Order::WholeInOrder);
      },
      "is not finite");
}

}  // namespace
}  // namespace sluice::gpt
