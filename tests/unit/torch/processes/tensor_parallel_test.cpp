#include "sluice/torch/tensor_parallel.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../sequential_run.hpp"
#include "rank_processes.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/gpt_chunk.hpp"
#include "sluice/torch/process_groups.hpp"

namespace sluice::gpt {
namespace {

using test::RankProcesses;
using test::RankResult;
using test::small_config;
using testing::HasSubstr;

constexpr double kTolerance = 1e-6;

void expect_refused(const GptConfig& config, std::uint32_t members, const char* complaint) {
  try {
    require_divisible(config, members);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "tp");
    EXPECT_THAT(error.what(), HasSubstr(complaint));
  }
}

TEST(TensorParallel, HeadsMustBeDivisible) {
  GptConfig config = small_config();
  config.heads = 4;
  EXPECT_NO_THROW(require_divisible(config, 1));
  EXPECT_NO_THROW(require_divisible(config, 4));
  expect_refused(config, 3, "4 heads cannot be divided over 3 ranks");
  expect_refused(config, 8, "4 heads cannot be divided over 8 ranks");
  expect_refused(config, 0, "at least 1");
  config.encoder.emplace().heads = 2;
  EXPECT_NO_THROW(require_divisible(config, 2));
  expect_refused(config, 4, "2 heads of the encoder");
}

TEST(TensorParallel, WithoutAGroupNothingIsDivided) {
  const TensorParallel alone;
  EXPECT_EQ(alone.members(), 1U);
  EXPECT_EQ(alone.member(), 0U);
  const at::Tensor whole = at::rand({6, 4});
  EXPECT_TRUE(at::equal(part_of(whole, Split::Whole, alone), whole));
}

/// What a member has of a matrix of 6 rows and 4 columns that counts its elements, and whether all
/// members' parts make the whole again.
std::string describe(const TensorParallel& tensor, Split split) {
  const at::Tensor whole = at::arange(24, at::kFloat).view({6, 4});
  const at::Tensor part = part_of(whole, split, tensor);
  std::string text = std::to_string(part.size(0)) + "x" + std::to_string(part.size(1)) + ":";
  for (const float value : std::span(part.const_data_ptr<float>(), static_cast<std::size_t>(part.numel()))) {
    text += " " + std::to_string(static_cast<int>(value));
  }
  std::vector<at::Tensor> parts;
  for (const SharedBytes& bytes :
       tensor.group->all_gather({static_cast<const std::byte*>(part.const_data_ptr()), part.nbytes()})) {
    parts.push_back(at::empty_like(part));
    std::memcpy(parts.back().mutable_data_ptr(), bytes->data(), part.nbytes());
  }
  if (split != Split::Whole && part.storage().nbytes() != part.nbytes()) text += " keeps more than its part";
  return text + (at::equal(join_parts(parts, split).view({6, 4}), whole) ? " whole;" : " broken;");
}

TEST(TensorParallel, PartsMakeTheWholeAgain) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& settings) {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 1, 2}, bootstrap, std::chrono::seconds(30));
    const TensorParallel tensor{&groups.tensor()};
    return describe(tensor, Split::Rows) + describe(tensor, Split::HeadRows) +
           describe(tensor, Split::Columns);
  });
  EXPECT_EQ(results[0].text,
            "3x4: 0 1 2 3 4 5 6 7 8 9 10 11 whole;3x4: 0 1 2 3 8 9 10 11 16 17 18 19 whole;"
            "6x2: 0 1 4 5 8 9 12 13 16 17 20 21 whole;");
  EXPECT_EQ(results[1].text,
            "3x4: 12 13 14 15 16 17 18 19 20 21 22 23 whole;3x4: 4 5 6 7 12 13 14 15 20 21 22 23 whole;"
            "6x2: 2 3 6 7 10 11 14 15 18 19 22 23 whole;");
}

/// Results of one microbatch through a whole model, by name.
using Results = std::map<std::string, at::Tensor>;

Results run_model(const GptConfig& config, const TensorParallel& tensor) {
  at::set_num_threads(1);
  GptChunk chunk(config, {0, config.layers}, true, true, {}, tensor);
  const at::Tensor tokens = at::arange(config.micro_batch_size * config.context, at::kLong)
                                .view({config.micro_batch_size, config.context});
  const at::Tensor input = chunk.embed_tokens(tokens).requires_grad_(true);
  WeightJobs jobs;
  const at::Tensor loss = chunk.forward(input, tokens + 1, Dropout(0.2, 7, 3, 1), jobs);
  const at::Tensor input_grad = ::torch::autograd::grad({loss}, {input}).front().detach();
  chunk.defer_embedding(tokens, input_grad, jobs);
  jobs.run();
  Results results{{"loss", loss.detach()}, {"input gradient", input_grad}};
  for (const ModelParameter& parameter : chunk.parameters()) {
    std::vector<at::Tensor> parts{parameter.grad};
    if (parameter.split != Split::Whole) {
      const at::Tensor& own = parameter.grad;
      parts.clear();
      for (const SharedBytes& bytes :
           tensor.group->all_gather({static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes()})) {
        parts.push_back(at::empty_like(own));
        std::memcpy(parts.back().mutable_data_ptr(), bytes->data(), own.nbytes());
      }
    }
    results["gradient of " + parameter.name] = join_parts(parts, parameter.split).flatten();
  }
  return results;
}

/// Names what differs from the whole model's results by more than the tolerance, relative to the
/// largest element.
std::string differences(const Results& divided, const Results& whole) {
  std::string text;
  for (const auto& [name, expected] : whole) {
    const double largest = expected.abs().max().item<double>();
    const double error = (divided.at(name).view_as(expected) - expected).abs().max().item<double>();
    if (!(error <= kTolerance * largest)) text += name + " by " + std::to_string(error / largest) + "; ";
  }
  return text;
}

/// Names what is not the same bit for bit on both members.
std::string disagreements(const Results& own, ProcessGroup& group) {
  std::string text;
  for (const auto& [name, tensor] : own) {
    const auto all =
        group.all_gather({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    if (*all[0] != *all[1]) text += name + "; ";
  }
  return text;
}

TEST(TensorParallel, ForwardAndBackwardEqualThoseOfTheWholeModel) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& settings) {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 1, 2}, bootstrap, std::chrono::seconds(30));
    const Results whole = run_model(small_config(), {});
    const Results divided = run_model(small_config(), {&groups.tensor()});
    return "differ from the whole: " + differences(divided, whole) +
           "differ between members: " + disagreements(divided, groups.tensor());
  });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.text, "differ from the whole: differ between members: ");
  }
}

TEST(TensorParallel, WeightGradientJobsTalkToNobody) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& settings) -> std::string {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 1, 2}, bootstrap, std::chrono::seconds(30));
    GptChunk chunk(small_config(), {0, 1}, false, false, {}, {&groups.tensor()});
    const at::Tensor input = at::rand({2, 8, 16}).requires_grad_(true);
    WeightJobs jobs;
    const at::Tensor output = chunk.forward(input, {}, {}, jobs);
    (void)::torch::autograd::grad({output}, {input}, {at::ones_like(output)});
    groups.world().barrier();
    if (settings.rank == 1) jobs.run();
    groups.world().barrier();
    if (settings.rank == 0) jobs.run();
    groups.world().barrier();
    return "ran";
  });
  for (const RankResult& result : results) EXPECT_EQ(result.text, "ran");
}

}  // namespace
}  // namespace sluice::gpt
