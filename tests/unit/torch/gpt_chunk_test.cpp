#include "sluice/torch/gpt_chunk.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

namespace sluice::gpt {
namespace {

GptConfig small_config() {
  GptConfig config;
  config.layers = 2;
  config.width = 16;
  config.heads = 2;
  config.context = 6;
  config.micro_batch_size = 3;
  return config;
}

GptChunk whole_model(const GptConfig& config) { return {config, {0, config.layers}, true, true}; }

/// The model written with ordinary autograd and explicit attention.
class PlainGpt {
 public:
  PlainGpt(const GptConfig& config, const std::deque<ModelParameter>& parameters) : config_(config) {
    for (const ModelParameter& parameter : parameters) {
      values_[parameter.name] = parameter.value.clone().requires_grad_(true);
    }
  }

  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets) {
    at::Tensor x = at::embedding(get("embedding.weight"), tokens) + get("positions.weight");
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      const std::string block = "block" + std::to_string(layer) + ".";
      x = x + linear(attend(linear(norm(x, block + "norm1"), block + "qkv")), block + "projection");
      x = x + linear(at::gelu(linear(norm(x, block + "norm2"), block + "expand")), block + "contract");
    }
    const at::Tensor logits = norm(x, "final_norm").matmul(get("head.weight").t());
    return -at::log_softmax(logits, -1).gather(-1, targets.unsqueeze(-1)).mean();
  }

  const at::Tensor& get(const std::string& name) { return values_.at(name); }

 private:
  at::Tensor norm(const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {x.size(-1)}, get(name + ".weight"), get(name + ".bias"));
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) {
    return at::linear(x, get(name + ".weight"), get(name + ".bias"));
  }
  at::Tensor attend(const at::Tensor& qkv) const {
    const std::int64_t tokens = qkv.size(1);
    const std::int64_t head_width = config_.width / config_.heads;
    const auto split = qkv.split(config_.width, -1);
    const auto heads = [&](const at::Tensor& x) {
      return x.reshape({x.size(0), tokens, config_.heads, head_width}).transpose(1, 2);
    };
    at::Tensor scores =
        heads(split[0]).matmul(heads(split[1]).transpose(-1, -2)) / std::sqrt(double(head_width));
    const at::Tensor future = at::ones({tokens, tokens}, at::kBool).triu(1);
    scores = scores.masked_fill(future, -std::numeric_limits<float>::infinity());
    return at::softmax(scores, -1).matmul(heads(split[2])).transpose(1, 2).reshape({qkv.size(0), tokens, -1});
  }

  GptConfig config_;
  std::map<std::string, at::Tensor> values_;
};

TEST(GptChunk, LossAndGradientsMatchPlainAutograd) {
  at::set_num_threads(1);
  const GptConfig config = small_config();
  GptChunk chunk = whole_model(config);
  PlainGpt plain(config, chunk.parameters());
  at::manual_seed(5);
  const at::Tensor tokens = at::randint(256, {config.micro_batch_size, config.context}, at::kLong);
  const at::Tensor targets = at::randint(256, {config.micro_batch_size, config.context}, at::kLong);

  WeightJobs jobs;
  const at::Tensor embedded = chunk.embed_tokens(tokens).requires_grad_(true);
  const at::Tensor loss = chunk.forward(embedded, targets, {}, jobs);
  loss.backward();
  chunk.defer_embedding(tokens, embedded.grad(), jobs);
  jobs.run();
  const at::Tensor plain_loss = plain.loss(tokens, targets);
  plain_loss.backward();

  EXPECT_TRUE(at::allclose(loss, plain_loss, 1e-5, 1e-6));
  for (const ModelParameter& parameter : chunk.parameters()) {
    const at::Tensor& expected = plain.get(parameter.name).grad();
    EXPECT_TRUE(at::allclose(parameter.grad, expected, 1e-3, 1e-6))
        << parameter.name << " differs by " << (parameter.grad - expected).abs().max().item<float>();
    EXPECT_GT(parameter.grad.abs().max().item<float>(), 0.0F) << parameter.name;
  }
}

TEST(GptChunk, ParametersDoNotDependOnTheCut) {
  const GptConfig config = small_config();
  GptChunk whole = whole_model(config);
  GptChunk front(config, {0, 1}, true, false);
  GptChunk back(config, {1, 1}, false, true);
  std::map<std::string, const ModelParameter*> by_name;
  for (GptChunk* part : {&front, &back}) {
    for (const ModelParameter& parameter : part->parameters()) by_name[parameter.name] = &parameter;
  }
  ASSERT_EQ(by_name.size(), whole.parameters().size());
  for (const ModelParameter& parameter : whole.parameters()) {
    ASSERT_TRUE(by_name.contains(parameter.name));
    EXPECT_EQ(by_name[parameter.name]->index, parameter.index);
    EXPECT_TRUE(at::equal(by_name[parameter.name]->value, parameter.value)) << parameter.name;
  }
}

TEST(GptChunk, CanonicalIndicesAreDense) {
  for (const bool tied : {false, true}) {
    GptConfig config = small_config();
    config.tied_embeddings = tied;
    GptChunk chunk = whole_model(config);
    std::set<std::uint32_t> indices;
    for (const ModelParameter& parameter : chunk.parameters()) indices.insert(parameter.index);
    EXPECT_EQ(indices.size(), parameter_count(config));
    EXPECT_EQ(*indices.rbegin() + 1, parameter_count(config));
    EXPECT_EQ(chunk.parameters().size(), parameter_count(config) + (tied ? 1 : 0));
  }
}

TEST(GptChunk, TheTiedHeadStartsAsTheEmbedding) {
  GptConfig config = small_config();
  config.tied_embeddings = true;
  GptChunk chunk = whole_model(config);
  const ModelParameter& head = chunk.parameters().back();
  EXPECT_TRUE(head.is_tied_copy);
  EXPECT_TRUE(at::equal(head.value, chunk.parameters().front().value));
}

TEST(Dropout, MasksDependOnEachCounterAndOnNothingElse) {
  using Site = Dropout::Site;
  const at::Tensor ones = at::ones({4, 64});
  const at::Tensor mask = Dropout(0.5, 1, 2, 3)(ones, 0, Site::Mlp);
  EXPECT_TRUE(at::equal(Dropout(0.5, 1, 2, 3)(ones, 0, Site::Mlp), mask));
  EXPECT_FALSE(at::equal(Dropout(0.5, 9, 2, 3)(ones, 0, Site::Mlp), mask));
  EXPECT_FALSE(at::equal(Dropout(0.5, 1, 9, 3)(ones, 0, Site::Mlp), mask));
  EXPECT_FALSE(at::equal(Dropout(0.5, 1, 2, 9)(ones, 0, Site::Mlp), mask));
  EXPECT_FALSE(at::equal(Dropout(0.5, 1, 2, 3)(ones, 1, Site::Mlp), mask));
  EXPECT_FALSE(at::equal(Dropout(0.5, 1, 2, 3)(ones, 0, Site::Attention), mask));
}

TEST(Dropout, KeepsTheExpectedShareAndScalesIt) {
  const at::Tensor dropped = Dropout(0.25, 1, 0, 0)(at::ones({10000}), 0, Dropout::Site::Mlp);
  EXPECT_NEAR(dropped.count_nonzero().item<double>(), 7500.0, 200.0);
  EXPECT_NEAR(dropped.max().item<float>(), 4.0 / 3.0, 1e-6);
}

TEST(Dropout, NoneIsTheIdentity) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(Dropout()(x, 0, Dropout::Site::Mlp).is_same(x));
}

}  // namespace
}  // namespace sluice::gpt
