#include "sluice/nvtx/profile_range.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "probe_calls.hpp"

namespace sluice::nvtx {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

/// Two functions of a CUDA runtime library, loaded for all of the process.
class ProfilerApi {
 public:
  ProfilerApi() : library_(dlopen(SLUICE_PROFILER_API, RTLD_NOW | RTLD_GLOBAL), dlclose) {}

  [[nodiscard]] int starts() const { return count("sluice_profiler_starts"); }
  [[nodiscard]] int stops() const { return count("sluice_profiler_stops"); }

 private:
  [[nodiscard]] int count(const char* name) const { return *static_cast<int*>(dlsym(library_.get(), name)); }

  std::unique_ptr<void, int (*)(void*)> library_;
};

void run(ProfileRange& range, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t iteration = first; iteration <= last; ++iteration) {
    range.begins(iteration);
    range.ended(iteration);
  }
}

TEST(ProfileRange, IsOneRangeFromTheFirstToTheLastIteration) {
  const ProbeCalls calls;
  const Domain domain;
  ProfileRange range(domain, 2, 4);
  run(range, 0, 1);
  EXPECT_THAT(calls.of("start"), IsEmpty());
  run(range, 2, 3);
  ASSERT_THAT(calls.of("start"), SizeIs(1));
  EXPECT_THAT(calls.of("end"), IsEmpty());
  run(range, 4, 4);
  EXPECT_THAT(calls.of("end"), SizeIs(1));
  run(range, 5, 9);
  ASSERT_THAT(calls.of("start"), SizeIs(1));
  EXPECT_THAT(calls.of("end"), SizeIs(1));
  const auto start = calls.of("start")[0];
  EXPECT_EQ(start["domain"], "sluice");
  EXPECT_EQ(start["message"], "profile");
  EXPECT_TRUE(start["registered"]) << "nsys looks for registered names alone";
  EXPECT_EQ(start["category"], "profile");
  EXPECT_EQ(start["payload"], 2);
  EXPECT_EQ(start["range"], calls.of("end")[0]["range"]);
}

TEST(ProfileRange, IsClosedWhenTheRunEndsEarly) {
  const ProbeCalls calls;
  const Domain domain;
  {
    ProfileRange range(domain, 1, 9);
    run(range, 0, 3);
    EXPECT_THAT(calls.of("end"), IsEmpty());
  }
  EXPECT_THAT(calls.of("end"), SizeIs(1));
}

TEST(ProfileRange, CallsTheProfilerOfALoadedCudaRuntime) {
  const ProbeCalls calls;
  const Domain domain;
  const ProfilerApi api;
  const int starts = api.starts();
  const int stops = api.stops();
  ProfileRange range(domain, 1, 2);
  run(range, 0, 1);
  EXPECT_EQ(api.starts(), starts + 1);
  EXPECT_EQ(api.stops(), stops);
  run(range, 2, 5);
  EXPECT_EQ(api.starts(), starts + 1);
  EXPECT_EQ(api.stops(), stops + 1);
}

}  // namespace
}  // namespace sluice::nvtx
