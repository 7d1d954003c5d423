#include "sluice/process/process_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Variables with(const std::string& name, const std::string& value) {
  Variables all = {{"RANK", "3"},
                   {"WORLD_SIZE", "8"},
                   {"MASTER_ADDR", "node0"},
                   {"MASTER_PORT", "29500"},
                   {"LOCAL_WORLD_SIZE", "4"},
                   {"LOCAL_RANK", "1"}};
  if (!name.empty()) all[name] = value;
  return all;
}

std::string refusal(const Variables& variables) {
  try {
    (void)environment_place(environment(variables));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ProcessPlace, ReadsWhatTorchrunSets) {
  const ProcessPlace place = environment_place(environment(with("", ""))).value();
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.ranks, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_ranks, 4);
  EXPECT_EQ(place.host, "node0");
  EXPECT_EQ(place.port, 29500);
}

TEST(ProcessPlace, WithoutLocalOnesAllAreOnOneMachine) {
  Variables variables = with("", "");
  variables.erase("LOCAL_RANK");
  variables.erase("LOCAL_WORLD_SIZE");
  const ProcessPlace place = environment_place(environment(variables)).value();
  EXPECT_EQ(place.local_rank, 3);
  EXPECT_EQ(place.local_ranks, 8);
}

TEST(ProcessPlace, NothingSetIsNoPlace) {
  EXPECT_FALSE(environment_place(environment({})));
  EXPECT_FALSE(environment_place(environment({{"LOCAL_RANK", "1"}})));
}

TEST(ProcessPlace, SomeButNotAllIsRefusedNamingTheMissingOne) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = with("", "");
    variables.erase(name);
    EXPECT_TRUE(refusal(variables).starts_with(std::string(name) + ": is not set although ")) << name;
  }
}

TEST(ProcessPlace, RefusesWhatIsNoNumberOrOutOfRange) {
  EXPECT_EQ(refusal(with("RANK", "8")), "RANK: \"8\" is not a number from 0 to 7");
  EXPECT_EQ(refusal(with("WORLD_SIZE", "0")), "WORLD_SIZE: \"0\" is not a number from 1 to 1048576");
  EXPECT_EQ(refusal(with("MASTER_PORT", "65536")), "MASTER_PORT: \"65536\" is not a number from 1 to 65535");
  EXPECT_EQ(refusal(with("MASTER_PORT", "0")), "MASTER_PORT: \"0\" is not a number from 1 to 65535");
  EXPECT_EQ(refusal(with("MASTER_ADDR", "")), "MASTER_ADDR: is empty");
  EXPECT_EQ(refusal(with("LOCAL_RANK", "4")), "LOCAL_RANK: \"4\" is not a number from 0 to 3");
  EXPECT_EQ(refusal(with("LOCAL_WORLD_SIZE", "9")), "LOCAL_WORLD_SIZE: \"9\" is not a number from 1 to 8");
  for (const char* value : {"", " 1", "1 ", "-1", "+1", "1.5", "0x1", "one", "99999999999999999999"}) {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
      EXPECT_TRUE(refusal(with(name, value)).starts_with(name)) << name << "=" << value;
  }
}

TEST(ProcessPlace, ALocalRankThatCannotBeTheRankIsAskedFor) {
  Variables variables = with("LOCAL_WORLD_SIZE", "2");
  variables.erase("LOCAL_RANK");
  EXPECT_EQ(refusal(variables), "LOCAL_RANK: is not set, and RANK 3 is not below LOCAL_WORLD_SIZE 2");
}

}  // namespace
}  // namespace sluice::process
