#include "sluice/torch/vit_chunk.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

constexpr ImageGrid kGrid{2, 3};

GptConfig small_config() {
  GptConfig config;
  config.layers = 2;
  config.width = 16;
  config.heads = 2;
  config.context = 6;
  config.micro_batch_size = 3;
  config.encoder = VitConfig{2, 12, 3, 4, 0};
  return config;
}

VitChunk whole_model(const GptConfig& config) {
  return {config, {{0, config.encoder->layers}, {0, config.layers}}};
}

struct Data {
  at::Tensor patches;
  at::Tensor tokens;
  at::Tensor targets;
};

Data random_data(const GptConfig& config) {
  at::manual_seed(5);
  Data data{at::rand({config.micro_batch_size, kGrid.patches(), VitConfig::kPatchValues}),
            at::randint(256, {config.micro_batch_size, config.context}, at::kLong),
            at::randint(256, {config.micro_batch_size, config.context}, at::kLong)};
  data.targets[0][4] = ShapesData::kNoTarget;
  data.targets[2][1] = ShapesData::kNoTarget;
  return data;
}

/// The model written with ordinary autograd and explicit attention.
class PlainVitGpt {
 public:
  PlainVitGpt(const GptConfig& config, const std::vector<ModelParameter*>& parameters) : config_(config) {
    for (const ModelParameter* parameter : parameters)
      values_[parameter->name] = parameter->value.clone().requires_grad_(true);
  }

  at::Tensor loss(const Data& data) {
    at::Tensor image = linear(data.patches, "encoder.patch") + positions();
    for (std::uint32_t layer = 0; layer < config_.encoder->layers; ++layer)
      image = block(image, "encoder.block" + std::to_string(layer) + ".", config_.encoder->heads, false);
    image = linear(norm(image, "encoder.norm"), "encoder.connector");
    const at::Tensor text = at::embedding(get("embedding.weight"), data.tokens) + get("positions.weight");
    at::Tensor x = at::cat({image, text}, 1);
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer)
      x = block(x, "block" + std::to_string(layer) + ".", config_.heads, true);
    const at::Tensor read = x.slice(1, kGrid.patches());
    const at::Tensor logits = norm(read, "final_norm").matmul(get("head.weight").t());
    const at::Tensor counted = data.targets.ge(0);
    const at::Tensor likelihood =
        at::log_softmax(logits, -1).gather(-1, data.targets.clamp(0).unsqueeze(-1)).squeeze(-1);
    return -likelihood.masked_select(counted).mean();
  }

  const at::Tensor& get(const std::string& name) { return values_.at(name); }

 private:
  /// The table is for 4 x 4 patches, the image is 2 x 3: its rows are those of 0 and 2, its columns those
  /// of 0, 1 and 2.
  at::Tensor positions() {
    std::vector<at::Tensor> all;
    for (const std::int64_t row : {0, 2}) {
      for (const std::int64_t column : {0, 1, 2})
        all.push_back(get("encoder.rows.weight")[row] + get("encoder.columns.weight")[column]);
    }
    return at::stack(all);
  }
  at::Tensor block(at::Tensor x, const std::string& name, std::int64_t heads, bool causal) {
    x = x + linear(attend(linear(norm(x, name + "norm1"), name + "qkv"), heads, causal), name + "projection");
    return x + linear(at::gelu(linear(norm(x, name + "norm2"), name + "expand")), name + "contract");
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {x.size(-1)}, get(name + ".weight"), get(name + ".bias"));
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) {
    return at::linear(x, get(name + ".weight"), get(name + ".bias"));
  }
  static at::Tensor attend(const at::Tensor& qkv, std::int64_t heads, bool causal) {
    const std::int64_t tokens = qkv.size(1);
    const std::int64_t width = qkv.size(2) / 3;
    const auto split = qkv.split(width, -1);
    const auto by_head = [&](const at::Tensor& x) {
      return x.reshape({x.size(0), tokens, heads, width / heads}).transpose(1, 2);
    };
    at::Tensor scores = by_head(split[0]).matmul(by_head(split[1]).transpose(-1, -2)) /
                        std::sqrt(static_cast<double>(width / heads));
    if (causal) {
      const at::Tensor future = at::ones({tokens, tokens}, at::kBool).triu(1);
      scores = scores.masked_fill(future, -std::numeric_limits<float>::infinity());
    }
    return at::softmax(scores, -1)
        .matmul(by_head(split[2]))
        .transpose(1, 2)
        .reshape({qkv.size(0), tokens, width});
  }

  GptConfig config_;
  std::map<std::string, at::Tensor> values_;
};

TEST(VitChunk, LossAndGradientsMatchPlainAutograd) {
  at::set_num_threads(1);
  const GptConfig config = small_config();
  VitChunk chunk = whole_model(config);
  PlainVitGpt plain(config, chunk.parameters());
  const Data data = random_data(config);

  WeightJobs jobs;
  const at::Tensor image = chunk.embed_patches(data.patches, kGrid).requires_grad_(true);
  const at::Tensor text = chunk.embed_tokens(data.tokens).requires_grad_(true);
  const at::Tensor loss = chunk.forward(image, text, data.targets, {}, jobs);
  loss.backward();
  chunk.defer_patches(data.patches, kGrid, image.grad(), jobs);
  chunk.defer_tokens(data.tokens, text.grad(), jobs);
  jobs.run();
  const at::Tensor plain_loss = plain.loss(data);
  plain_loss.backward();

  EXPECT_TRUE(at::allclose(loss, plain_loss, 1e-5, 1e-6));
  for (const ModelParameter* parameter : chunk.parameters()) {
    const at::Tensor& expected = plain.get(parameter->name).grad();
    EXPECT_TRUE(at::allclose(parameter->grad, expected, 1e-3, 1e-6))
        << parameter->name << " differs by " << (parameter->grad - expected).abs().max().item<float>();
    EXPECT_GT(parameter->grad.abs().max().item<float>(), 0.0F) << parameter->name;
  }
}

/// Every chunk's own part of the model, and the loss through all of them.
double loss_through(std::vector<VitChunk>& chunks, const Data& data) {
  WeightJobs jobs;
  at::Tensor x = chunks.front().embed_patches(data.patches, kGrid);
  for (VitChunk& chunk : chunks) {
    EXPECT_EQ(x.sizes(), at::IntArrayRef(chunk.input_shape(kGrid.patches())));
    const at::Tensor text = chunk.joins() ? chunk.embed_tokens(data.tokens) : at::Tensor();
    x = chunk.forward(x, text, data.targets, {}, jobs);
  }
  return x.item<double>();
}

std::vector<VitChunk> cut(const GptConfig& config, std::uint32_t chunks) {
  std::vector<VitChunk> parts;
  for (const VitLayers& layers : divide_vit_layers(config, chunks)) parts.emplace_back(config, layers);
  return parts;
}

TEST(VitChunk, ParametersAndLossDoNotDependOnTheCut) {
  at::set_num_threads(1);
  GptConfig config = small_config();
  VitChunk whole = whole_model(config);
  std::vector<VitChunk> one = cut(config, 1);
  const double loss = loss_through(one, random_data(config));
  for (const std::uint32_t encoder_chunks : {0U, 1U, 2U}) {
    config.encoder->chunks = encoder_chunks;
    for (std::uint32_t chunks = encoder_chunks + 1; chunks <= encoder_chunks + 2; ++chunks) {
      std::vector<VitChunk> parts = cut(config, chunks);
      EXPECT_EQ(loss_through(parts, random_data(config)), loss) << chunks << " chunks";
      std::map<std::string, const ModelParameter*> by_name;
      for (VitChunk& part : parts) {
        for (const ModelParameter* parameter : part.parameters()) by_name[parameter->name] = parameter;
      }
      ASSERT_EQ(by_name.size(), whole.parameters().size());
      for (const ModelParameter* parameter : whole.parameters()) {
        ASSERT_TRUE(by_name.contains(parameter->name));
        EXPECT_EQ(by_name[parameter->name]->index, parameter->index);
        EXPECT_TRUE(at::equal(by_name[parameter->name]->value, parameter->value)) << parameter->name;
      }
    }
  }
}

TEST(VitChunk, CanonicalIndicesAreDense) {
  for (const bool tied : {false, true}) {
    GptConfig config = small_config();
    config.tied_embeddings = tied;
    VitChunk chunk = whole_model(config);
    std::set<std::uint32_t> indices;
    for (const ModelParameter* parameter : chunk.parameters()) indices.insert(parameter->index);
    EXPECT_EQ(indices.size(), model_parameter_count(config));
    EXPECT_EQ(*indices.rbegin() + 1, model_parameter_count(config));
    EXPECT_EQ(chunk.parameters().size(), model_parameter_count(config) + (tied ? 1 : 0));
  }
}

TEST(VitChunk, TheGptsParametersAreThoseOfAGptAlone) {
  const GptConfig config = small_config();
  VitChunk chunk = whole_model(config);
  GptChunk gpt(config, {0, config.layers}, true, true);
  std::map<std::uint32_t, const ModelParameter*> by_index;
  for (const ModelParameter* parameter : chunk.parameters()) by_index[parameter->index] = parameter;
  for (const ModelParameter& parameter : gpt.parameters()) {
    EXPECT_EQ(by_index.at(parameter.index)->name, parameter.name);
    EXPECT_TRUE(at::equal(by_index.at(parameter.index)->value, parameter.value)) << parameter.name;
  }
}

TEST(VitChunk, ThePatchesOfAnImageSeeEachOtherAndTheTextSeesThem) {
  at::set_num_threads(1);
  const GptConfig config = small_config();
  const VitChunk encoder(config, {{0, 2}, {}});
  const Data data = random_data(config);
  WeightJobs jobs;
  at::Tensor changed = data.patches.clone();
  changed.select(1, kGrid.patches() - 1).fill_(1.0);
  const auto encode = [&](const at::Tensor& patches) {
    return encoder.forward(encoder.embed_patches(patches, kGrid), {}, {}, {}, jobs);
  };
  const at::Tensor difference = (encode(changed) - encode(data.patches)).abs().amax(-1);
  EXPECT_GT(difference.min().item<float>(), 0.0F) << "a patch does not see the last one";
  std::vector<VitChunk> whole = cut(config, 1);
  Data other = data;
  other.patches = changed;
  EXPECT_NE(loss_through(whole, other), loss_through(whole, data));
}

TEST(DivideVitLayers, DividesBothPartsTogetherOrApart) {
  GptConfig config = small_config();
  config.layers = 3;
  EXPECT_EQ(divide_vit_layers(config, 1), (std::vector<VitLayers>{{{0, 2}, {0, 3}}}));
  EXPECT_EQ(divide_vit_layers(config, 2), (std::vector<VitLayers>{{{0, 2}, {0, 1}}, {{2, 0}, {1, 2}}}));
  EXPECT_EQ(divide_vit_layers(config, 4),
            (std::vector<VitLayers>{{{0, 2}, {0, 0}}, {{2, 0}, {0, 1}}, {{2, 0}, {1, 1}}, {{2, 0}, {2, 1}}}));
  config.encoder->chunks = 2;
  EXPECT_EQ(divide_vit_layers(config, 4),
            (std::vector<VitLayers>{{{0, 1}, {0, 0}}, {{1, 1}, {0, 0}}, {{2, 0}, {0, 2}}, {{2, 0}, {2, 1}}}));
}

TEST(DivideVitLayers, RefusesChunksWithoutBlocks) {
  const auto field = [](std::uint32_t encoder_chunks, std::uint32_t chunks) {
    GptConfig config = small_config();
    config.encoder->chunks = encoder_chunks;
    try {
      (void)divide_vit_layers(config, chunks);
    } catch (const ConfigError& error) {
      return error.field();
    }
    return std::string("none");
  };
  EXPECT_EQ(field(0, 4), "none");
  EXPECT_EQ(field(0, 5), "stages");
  EXPECT_EQ(field(2, 2), "encoder-chunks");
  EXPECT_EQ(field(1, 3), "none");
  EXPECT_EQ(field(1, 4), "stages");
}

}  // namespace
}  // namespace sluice::gpt
