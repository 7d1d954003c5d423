#include "sluice/torch/deferred.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

namespace sluice::gpt {
namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kIn = 16;
constexpr std::int64_t kOut = 24;

Parameter make_parameter(const char* name, at::IntArrayRef sizes) {
  const at::Tensor value = at::randn(sizes);
  return {name, value, at::zeros_like(value)};
}

/// The same values as a leaf of an ordinary autograd graph.
at::Tensor leaf_of(const at::Tensor& value) { return value.detach().clone().requires_grad_(true); }

class Deferred : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(3);
    x_ = at::randn({kRows, kTokens, kIn});
  }

  at::Tensor x_;
  WeightJobs jobs_;
};

TEST_F(Deferred, LinearMatchesAutograd) {
  const Parameter weight = make_parameter("weight", {kOut, kIn});
  const Parameter bias = make_parameter("bias", {kOut});
  const at::Tensor dy = at::randn({kRows, kTokens, kOut});

  const at::Tensor x = leaf_of(x_);
  const at::Tensor y = deferred_linear(x, weight, &bias, jobs_);
  y.backward(dy);
  EXPECT_EQ(jobs_.size(), 1U);
  EXPECT_TRUE(at::equal(weight.grad, at::zeros_like(weight.grad)))
      << "weight gradients ran before their turn";
  jobs_.run();

  const at::Tensor plain_x = leaf_of(x_);
  const at::Tensor plain_weight = leaf_of(weight.value);
  const at::Tensor plain_bias = leaf_of(bias.value);
  const at::Tensor plain_y = at::linear(plain_x, plain_weight, plain_bias);
  plain_y.backward(dy);
  EXPECT_TRUE(at::equal(y, plain_y));
  EXPECT_TRUE(at::allclose(x.grad(), plain_x.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(weight.grad, plain_weight.grad(), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(bias.grad, plain_bias.grad(), 1e-5, 1e-5));
}

TEST_F(Deferred, LayerNormMatchesAutograd) {
  const Parameter weight = make_parameter("weight", {kIn});
  const Parameter bias = make_parameter("bias", {kIn});
  const at::Tensor dy = at::randn_like(x_);

  const at::Tensor x = leaf_of(x_);
  deferred_layer_norm(x, weight, bias, jobs_).backward(dy);
  jobs_.run();

  const at::Tensor plain_x = leaf_of(x_);
  const at::Tensor plain_weight = leaf_of(weight.value);
  const at::Tensor plain_bias = leaf_of(bias.value);
  at::layer_norm(plain_x, {kIn}, plain_weight, plain_bias).backward(dy);
  EXPECT_TRUE(at::allclose(x.grad(), plain_x.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(weight.grad, plain_weight.grad(), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(bias.grad, plain_bias.grad(), 1e-5, 1e-5));
}

TEST_F(Deferred, EmbeddingMatchesAutograd) {
  const Parameter table = make_parameter("table", {10, kIn});
  const Parameter positions = make_parameter("positions", {kTokens + 2, kIn});
  const at::Tensor tokens = at::randint(10, {kRows, kTokens}, at::kLong);
  const at::Tensor dy = at::randn_like(x_);
  defer_embedding_gradient(tokens, dy, table, positions, jobs_);
  jobs_.run();

  const at::Tensor plain_table = leaf_of(table.value);
  const at::Tensor plain_positions = leaf_of(positions.value);
  const at::Tensor plain = at::embedding(plain_table, tokens) + plain_positions.narrow(0, 0, kTokens);
  plain.backward(dy);
  EXPECT_TRUE(at::equal(embed(tokens, table, positions), plain));
  EXPECT_TRUE(at::allclose(table.grad, plain_table.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(positions.grad, plain_positions.grad(), 1e-5, 1e-6));
}

TEST_F(Deferred, JobsAddToTheAccumulatorInPlace) {
  const Parameter weight = make_parameter("weight", {kOut, kIn});
  const void* accumulator = weight.grad.const_data_ptr();
  const at::Tensor dy = at::randn({kRows, kTokens, kOut});
  at::Tensor once;
  for (int pass = 0; pass < 2; ++pass) {
    deferred_linear(leaf_of(x_), weight, nullptr, jobs_).backward(dy);
    jobs_.run();
    if (pass == 0) once = weight.grad.clone();
  }
  EXPECT_EQ(weight.grad.const_data_ptr(), accumulator);
  EXPECT_TRUE(at::allclose(weight.grad, 2 * once));
}

TEST_F(Deferred, NothingIsLeftWithoutAGraph) {
  const Parameter weight = make_parameter("weight", {kOut, kIn});
  const at::NoGradGuard no_graph;
  const at::Tensor y = deferred_linear(x_, weight, nullptr, jobs_);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(jobs_.empty());
}

TEST(WeightJobs, RunOnceInTheOrderAdded) {
  WeightJobs jobs;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) jobs.add([&order, i] { order.push_back(i); });
  jobs.run();
  jobs.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace sluice::gpt
