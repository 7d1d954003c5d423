#include "sluice/torch/group_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rank_processes.hpp"
#include "sluice/error.hpp"
#include "sluice/torch/process_groups.hpp"
#include "text_bytes.hpp"

namespace sluice::gpt {
namespace {

using test::bytes_of;
using test::RankProcesses;
using test::text_of;

constexpr std::chrono::seconds kTimeout{30};

TEST(GroupExchange, IsTheEndOfAStepBetweenTheRanksOfAReplica) {
  const auto results = RankProcesses::run(4, [](const TcpStoreSettings& settings) -> std::string {
    TcpStoreBootstrap bootstrap(settings);
    const auto groups = std::make_shared<ProcessGroups>(process::RankGrid{2, 2, 1}, bootstrap, kTimeout);
    GroupExchange exchange(groups);
    const std::uint32_t own = groups->place().stage;
    const std::string word = "r" + std::to_string(settings.rank);
    std::string text = text_of(exchange.all_gather(own, bytes_of(word)));
    text += " " + text_of(exchange.swap_with(own, 1 - own, bytes_of(word)));
    try {
      (void)exchange.all_gather(1 - own, {});
    } catch (const Error& error) {
      text += std::string(" ") + error.what();
    }
    groups->world().barrier();
    return text;
  });
  EXPECT_EQ(results[0].text, "r0;r2; r2 place 1 of the replica exchanges in the process of place 0");
  EXPECT_EQ(results[1].text, "r1;r3; r3 place 1 of the replica exchanges in the process of place 0");
  EXPECT_EQ(results[2].text, "r0;r2; r0 place 0 of the replica exchanges in the process of place 1");
  EXPECT_EQ(results[3].text, "r1;r3; r1 place 0 of the replica exchanges in the process of place 1");
}

}  // namespace
}  // namespace sluice::gpt
