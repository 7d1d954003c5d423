#include "sluice/task.hpp"

#include <gtest/gtest.h>

#include "tasks.hpp"

namespace sluice::test {
namespace {

TEST(Task, IsOrderedByMicrobatchThenChunkThenPass) {
  EXPECT_LT(backward(1, 9), forward(2, 0));
  EXPECT_LT(weight_grad(1, 3), forward(1, 4));
  EXPECT_LT(forward(1, 3), backward(1, 3));
  EXPECT_LT(backward(1, 3), weight_grad(1, 3));
}

TEST(Task, IsNamedByPassChunkAndMicrobatch) {
  EXPECT_EQ(to_string(forward(5, 2)), "F(chunk 2, microbatch 5)");
  EXPECT_EQ(to_string(backward(0, 65535)), "B(chunk 65535, microbatch 0)");
  EXPECT_EQ(to_string(weight_grad(4294967295U, 1)), "W(chunk 1, microbatch 4294967295)");
}

}  // namespace
}  // namespace sluice::test
