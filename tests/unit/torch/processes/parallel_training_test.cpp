#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "process_training.hpp"
#include "rank_processes.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/no_pipeline.hpp"

namespace sluice::gpt {
namespace {

using process::RankGrid;
using test::kMicrobatches;
using test::ProcessTraining;
using test::RankProcesses;
using test::RankResult;
using test::small_config;
using test::small_text;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kSteps = 10;
/// Largest difference of a loss from that of one rank, relative to it.
constexpr double kTolerance = 1e-6;

struct Training {
  std::vector<double> losses;  ///< held-out loss, training losses, held-out loss; of ranks that know them
  std::string sha256;
};

template <typename Step, typename Evaluate>
std::vector<double> losses_of(Step step, Evaluate evaluate) {
  std::vector<double> losses{evaluate()};
  for (int i = 0; i < kSteps; ++i) losses.push_back(step());
  losses.push_back(evaluate());
  return losses;
}

Training train(ProcessTraining& run) {
  const auto loss = [&] { return run.rank().has_loss() ? run.rank().loss() : 0.0; };
  Training training;
  training.losses = losses_of(
      [&] {
        run.train();
        return loss();
      },
      [&] {
        run.evaluate();
        return loss();
      });
  training.sha256 = run.sha256();
  return training;
}

Training train_one_rank(const GptConfig& config, Microbatch microbatches) {
  NoPipeline run(config, small_text(config.context), microbatches);
  return {losses_of([&] { return run.run(IterationKind::Training); },
                    [&] { return run.run(IterationKind::ForwardOnly); }),
          run.parameters_sha256()};
}

double largest_difference(const std::vector<double>& losses, const std::vector<double>& expected) {
  double largest = losses.size() == expected.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    largest = std::fmax(largest, std::fabs(losses[i] - expected[i]) / expected[i]);
  }
  return largest;
}

struct Setting {
  const char* name;
  RankGrid grid;
  /// Chunks of each stage.
  std::uint32_t chunks;
  double dropout;
  bool tied;
  double clip_norm;
  bool has_encoder = false;
};

std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }

GptConfig config_of(const Setting& setting) {
  GptConfig config = small_config();
  config.heads = 4;
  config.dropout = setting.dropout;
  config.tied_embeddings = setting.tied;
  config.clip_norm = setting.clip_norm;
  if (setting.has_encoder) {
    config.context = 16;
    config.encoder = VitConfig{2, 12, 2, 5, 0};
  }
  return config;
}

Pipeline pipeline_of(const Setting& setting) {
  const Microbatch microbatches = kMicrobatches / setting.grid.replicas;
  const auto stages = static_cast<std::uint16_t>(setting.grid.stages);
  return setting.chunks == 1
             ? Pipeline::chain(stages, microbatches)
             : Pipeline::interleaved(stages, static_cast<std::uint16_t>(setting.chunks), microbatches);
}

/// `close` or how far from one rank's losses; the parameters' digest, which also tells that all members and
/// replicas have the same; the reduction's share.
std::string compare_with_one_rank(const Setting& setting, const TcpStoreSettings& store) {
  TcpStoreBootstrap bootstrap(store);
  ProcessTraining run(config_of(setting), setting.grid, pipeline_of(setting), bootstrap);
  const Training parallel = train(run);
  std::ostringstream text;
  if (run.rank().has_loss()) {
    const Training expected = train_one_rank(config_of(setting), kMicrobatches);
    const double difference = largest_difference(parallel.losses, expected.losses);
    if (difference > kTolerance) text << "losses differ by " << difference << "; ";
    if (parallel.losses.front() != expected.losses.front() && setting.grid.group == 1) {
      text << "losses of equal parameters differ; ";
    }
    if (setting.grid.replicas * setting.grid.group == 1 && parallel.sha256 != expected.sha256) {
      text << "parameters differ; ";
    }
  }
  const bool reduces = run.rank().reduction_time() > Duration::zero();
  if (reduces != (setting.grid.replicas > 1)) text << "reduction time; ";
  const bool waits = run.rank().exposed_reduction_time() > Duration::zero();
  if (waits != reduces) text << "exposed reduction time; ";
  text << parallel.sha256;
  run.groups().world().barrier();
  return text.str();
}

class ParallelTraining : public testing::TestWithParam<Setting> {};

TEST_P(ParallelTraining, HasTheLossesOfOneRank) {
  const Setting& setting = GetParam();
  const auto results = RankProcesses::run(setting.grid.ranks(), [&](const TcpStoreSettings& store) {
    return compare_with_one_rank(setting, store);
  });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.status, 0) << result.text;
    EXPECT_EQ(result.text.size(), 64U) << result.text;
    EXPECT_EQ(result.text, results.front().text);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, ParallelTraining,
                         testing::Values(Setting{"Stages2", {2, 1, 1}, 1, 0.1, true, 0.5},
                                         Setting{"Members2", {1, 1, 2}, 1, 0.0, false, 0.5},
                                         Setting{"Members4", {1, 1, 4}, 1, 0.1, false, 0.1},
                                         Setting{"Replicas2", {1, 2, 1}, 1, 0.1, false, 0.5},
                                         Setting{"Replicas4", {1, 4, 1}, 1, 0.0, true, 0.5},
                                         Setting{"Replicas2OfTwoChunks", {1, 2, 1}, 2, 0.0, false, 0.0},
                                         Setting{"Stages2Members2", {2, 1, 2}, 1, 0.1, true, 0.1},
                                         Setting{"Stages2Replicas2", {2, 2, 1}, 1, 0.1, true, 0.5},
                                         Setting{"Replicas2Members2", {1, 2, 2}, 1, 0.1, true, 0.1},
                                         Setting{"Stages2Replicas2Members2", {2, 2, 2}, 1, 0.1, true, 0.1},
                                         Setting{"EncoderMembers2", {1, 1, 2}, 1, 0.1, false, 0.5, true},
                                         Setting{"EncoderReplicas2", {1, 2, 1}, 2, 0.1, false, 0.5, true}),
                         [](const auto& setting) { return setting.param.name; });

TEST(ParallelTraining, EveryRunGivesTheSameBits) {
  const auto results = RankProcesses::run(4, [](const TcpStoreSettings& store) {
    std::string text;
    for (const char* job : {"first", "second"}) {
      TcpStoreSettings settings = store;
      settings.job = job;
      TcpStoreBootstrap bootstrap(settings);
      ProcessTraining run(small_config(), {1, 2, 2}, Pipeline::chain(1, 2), bootstrap);
      for (int step = 0; step < 3; ++step) run.train();
      text += run.sha256() + " ";
      run.groups().world().barrier();
    }
    return text;
  });
  const std::string& text = results.front().text;
  ASSERT_EQ(text.size(), 130U) << text;
  EXPECT_EQ(text.substr(0, 64), text.substr(65, 64));
}

TEST(ParallelTraining, AChunkIsReducedWhileOthersAreStillAtWork) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& store) -> std::string {
    TcpStoreBootstrap bootstrap(store);
    ProcessTraining run(small_config(), {1, 2, 1}, Pipeline::interleaved(1, 2, 2), bootstrap);
    std::string text;
    run.train([&](Chunk chunk) {
      if (chunk == 0) return;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (run.rank().reduction_time() == Duration::zero() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
      text += run.rank().reduction_time() > Duration::zero() ? "reduced before the end" : "not reduced";
    });
    return text;
  });
  for (const RankResult& result : results) EXPECT_EQ(result.text, "reduced before the end");
}

TEST(ParallelTraining, AReplicaThatLeavesEndsTheStepOfTheOthers) {
  const auto results = RankProcesses::run(2, [](const TcpStoreSettings& store) -> std::string {
    TcpStoreBootstrap bootstrap(store);
    ProcessTraining run(small_config(), {1, 2, 1}, Pipeline::chain(1, 2), bootstrap);
    run.train();
    if (store.rank == 1) return "left";
    try {
      run.train();
      return "trained alone";
    } catch (const Aborted& error) {
      return error.what();
    }
  });
  EXPECT_EQ(results[1].text, "left");
  EXPECT_EQ(results[0].status, 0);
  EXPECT_THAT(results[0].text, StartsWith("rank 0 in its data-parallel group (ranks 0, 1) lost a rank"));
}

struct Refusal {
  const char* name;
  RankGrid grid;
  std::uint32_t heads;
  const char* complaint;
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) { return out << refusal.name; }

class RefusedGrid : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedGrid, NamesTheField) {
  const Refusal& refusal = GetParam();
  const auto results = RankProcesses::run(refusal.grid.ranks(), [&](const TcpStoreSettings& store) {
    TcpStoreBootstrap bootstrap(store);
    GptConfig config = small_config();
    config.heads = refusal.heads;
    const ProcessTraining run(config, refusal.grid, Pipeline::chain(1, 2), bootstrap);
    return std::string("accepted");
  });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.text, HasSubstr(refusal.complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Grids, RefusedGrid,
    testing::Values(Refusal{"Heads", {1, 1, 2}, 1, "tp: 1 heads cannot be divided over 2 ranks"},
                    Refusal{"Stages", {2, 1, 1}, 2, "stages: the pipeline has 1, the ranks have 2"}),
    [](const auto& refusal) { return refusal.param.name; });

}  // namespace
}  // namespace sluice::gpt
