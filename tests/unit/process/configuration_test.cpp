#include "sluice/process/configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "memory_bootstrap.hpp"
#include "sluice/error.hpp"

namespace sluice::process {
namespace {

using test::MeetingPlace;
using test::MemoryBootstrap;
using testing::HasSubstr;

/// What each rank is told when all of them compare these.
std::vector<std::string> told(const std::vector<Configuration>& all) {
  MeetingPlace place(static_cast<std::uint32_t>(all.size()));
  std::vector<std::string> texts(all.size());
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    threads.emplace_back([&, rank] {
      MemoryBootstrap bootstrap(place, rank);
      try {
        check_same_configuration(bootstrap, all[rank]);
        texts[rank] = "the same";
      } catch (const ConfigError& error) {
        texts[rank] = error.what();
        EXPECT_TRUE(texts[rank].starts_with(error.field() + ": "));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

Configuration of(const std::string& microbatches, const std::string& limit) {
  return {{"stages", "4"}, {"microbatches", microbatches}, {"limit", limit}};
}

TEST(Configuration, TheSameEverywhereIsAccepted) {
  EXPECT_EQ(told({of("16", "8"), of("16", "8"), of("16", "8")}), std::vector<std::string>(3, "the same"));
  EXPECT_EQ(told({of("16", "8")}), std::vector<std::string>(1, "the same"));
  EXPECT_EQ(told({{}, {}}), std::vector<std::string>(2, "the same"));
}

TEST(Configuration, ARankWithAnotherOneIsNamedOnEveryRank) {
  EXPECT_EQ(told({of("16", "8"), of("16", "8"), of("8", "8")}),
            std::vector<std::string>(3, "microbatches: rank 2 has 8, ranks 0 and 1 have 16"));
  EXPECT_EQ(told({of("16", "8"), of("8", "8")}),
            std::vector<std::string>(2, "microbatches: rank 1 has 8, rank 0 has 16"));
}

TEST(Configuration, EveryFieldThatDiffersIsNamed) {
  EXPECT_EQ(told({of("16", "8"), of("8", "4"), of("4", "8")}),
            std::vector<std::string>(3,
                                     "microbatches: rank 1 has 8, rank 2 has 4, rank 0 has 16; "
                                     "limit: rank 1 has 4, ranks 0 and 2 have 8"));
}

TEST(Configuration, AFieldThatOnlySomeHaveDiffers) {
  Configuration more = of("16", "8");
  more.emplace_back("split", "true");
  EXPECT_EQ(told({of("16", "8"), more}),
            std::vector<std::string>(2, "split: rank 1 has true, rank 0 has no such field"));
  EXPECT_EQ(told({more, of("16", "8")}),
            std::vector<std::string>(2, "split: rank 1 has no such field, rank 0 has true"));
}

TEST(Configuration, AnotherOrderOfTheFieldsIsAnError) {
  EXPECT_THAT(told({{{"a", "1"}, {"b", "2"}}, {{"b", "2"}, {"a", "1"}}})[0],
              HasSubstr("the same fields in different orders"));
}

TEST(Configuration, TextThatIsNoUtf8IsCompared) {
  EXPECT_EQ(told({{{"text", "\xff\xfe"}}, {{"text", "\xff\xfe"}}}), std::vector<std::string>(2, "the same"));
  EXPECT_THAT(told({{{"text", "\xff"}}, {{"text", "a"}}})[1], HasSubstr("text: rank 1 has a, rank 0 has"));
}

TEST(Configuration, LongListsAreCut) {
  std::vector<Configuration> all;
  for (int rank = 0; rank < 7; ++rank) {
    Configuration one;
    for (int field = 0; field < 12; ++field)
      one.emplace_back("field" + std::to_string(field), rank == 0 ? "x" : "y");
    all.push_back(one);
  }
  try {
    require_same(all);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("field0: ranks 1, 2, 3, 4 and 2 more have y, rank 0 has x; field1: "));
    EXPECT_THAT(error.what(), HasSubstr("; and 4 more fields"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("field8")));
  }
}

TEST(Configuration, ARankThatSendsNoneIsNamed) {
  for (const std::string& sent : {std::string("{"), std::string("[1]"), std::string("[[\"a\"]]")}) {
    MeetingPlace place(2);
    std::thread other([&] {
      MemoryBootstrap bootstrap(place, 1);
      bootstrap.all_gather({});
      bootstrap.all_gather(std::as_bytes(std::span(sent.data(), sent.size())));
    });
    MemoryBootstrap bootstrap(place, 0);
    std::string text;
    try {
      check_same_configuration(bootstrap, of("16", "8"));
    } catch (const Error& error) {
      text = error.what();
    }
    other.join();
    EXPECT_THAT(text, HasSubstr("rank 1 sent no configuration"));
  }
}

TEST(Configuration, IsAlsoComparedOverTheControlPlane) {
  MeetingPlace place(2);
  std::string text;
  const auto run = [&](std::uint32_t rank) {
    MemoryBootstrap bootstrap(place, rank);
    ControlPlane control(bootstrap, {});
    check_same_configuration(control, of("16", "8"));
    EXPECT_THROW(check_same_configuration(control, of(rank == 0 ? "16" : "8", "8")), ConfigError);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

}  // namespace
}  // namespace sluice::process
