#include "run/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

namespace sluice::tools {
namespace {

TEST(Parallel, RunsEveryJobOnceWhateverTheThreads) {
  for (const unsigned threads : {0U, 1U, 3U, 50U}) {
    std::vector<std::atomic<int>> runs(20);
    std::vector<std::size_t> done;
    run_parallel(
        runs.size(), threads, [&](std::size_t job) { ++runs[job]; },
        [&](std::size_t count) { done.push_back(count); });
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](const auto& count) { return count == 1; }));
    ASSERT_EQ(done.size(), runs.size());
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(done.back(), runs.size());
  }
}

TEST(Parallel, NoJobsAreDoneAtOnce) {
  run_parallel(0, 4, [](std::size_t) { FAIL(); });
}

TEST(Parallel, AnErrorEndsTheRestAndIsThrown) {
  std::atomic<int> runs{0};
  EXPECT_THROW(run_parallel(1000, 2,
                            [&](std::size_t job) {
                              ++runs;
                              if (job == 3) throw std::runtime_error("three");
                            }),
               std::runtime_error);
  EXPECT_GE(runs, 1);
  EXPECT_LT(runs, 1000);
}

}  // namespace
}  // namespace sluice::tools
