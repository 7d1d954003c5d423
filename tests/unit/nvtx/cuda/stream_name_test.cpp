#include "sluice/nvtx/stream_name.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "../probe_calls.hpp"

namespace sluice::nvtx {
namespace {

TEST(NameStream, NamesAStream) {
  const ProbeCalls calls;
  std::uint64_t stream = 0;
  name_stream(reinterpret_cast<CUstream_st*>(&stream), "rank 0 (stage 0), compute");
  ASSERT_THAT(calls.of("name stream"), testing::SizeIs(1));
  EXPECT_EQ(calls.of("name stream")[0]["name"], "rank 0 (stage 0), compute");
  EXPECT_EQ(calls.of("name stream")[0]["named"], reinterpret_cast<std::uintptr_t>(&stream));
}

}  // namespace
}  // namespace sluice::nvtx
