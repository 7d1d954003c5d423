#include "sluice/torch/process_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rank_processes.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

using test::RankProcesses;

constexpr std::chrono::seconds kTimeout{30};

std::string listed(const ProcessGroup& group) {
  std::string text;
  for (const std::uint32_t rank : group.ranks()) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text + "@" + std::to_string(group.index());
}

TEST(ProcessGroups, FollowTheGrid) {
  const auto results = RankProcesses::run(4, [](const TcpStoreSettings& settings) {
    TcpStoreBootstrap bootstrap(settings);
    ProcessGroups groups({1, 2, 2}, bootstrap, kTimeout);
    return listed(groups.world()) + " tp " + listed(groups.tensor()) + " dp " + listed(groups.data()) +
           " replica " + listed(groups.replica());
  });
  EXPECT_EQ(results[0].text, "0,1,2,3@0 tp 0,1@0 dp 0,2@0 replica 0,1@0");
  EXPECT_EQ(results[1].text, "0,1,2,3@1 tp 0,1@1 dp 1,3@0 replica 0,1@1");
  EXPECT_EQ(results[2].text, "0,1,2,3@2 tp 2,3@0 dp 0,2@1 replica 2,3@0");
  EXPECT_EQ(results[3].text, "0,1,2,3@3 tp 2,3@1 dp 1,3@1 replica 2,3@1");
}

TEST(ProcessGroups, AGridOfOtherRanksIsRefused) {
  const TcpStoreHost store;
  TcpStoreSettings settings;
  settings.port = store.port();
  settings.host = "127.0.0.1";
  TcpStoreBootstrap bootstrap(settings);
  try {
    const ProcessGroups groups({2, 1, 2}, bootstrap, kTimeout);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "ranks");
  }
}

}  // namespace
}  // namespace sluice::gpt
