#include "sluice/torch/parameter_set.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>

namespace sluice::gpt {
namespace {

TEST(ParameterSet, AMatrixIsDrawnFromTheSeedAndItsIndexAlone) {
  ParameterSet one(1);
  (void)one.add_vector("before", 0, 3, 1.0);
  const at::Tensor value = one.add_matrix("matrix", 5, 40, 50, 0.1)->value;
  EXPECT_TRUE(at::equal(ParameterSet(1).add_matrix("another name", 5, 40, 50, 0.1)->value, value));
  EXPECT_FALSE(at::equal(ParameterSet(1).add_matrix("matrix", 6, 40, 50, 0.1)->value, value));
  EXPECT_FALSE(at::equal(ParameterSet(2).add_matrix("matrix", 5, 40, 50, 0.1)->value, value));
  EXPECT_NEAR(value.mean().item<double>(), 0.0, 0.01);
  EXPECT_NEAR(value.std().item<double>(), 0.1, 0.01);
}

TEST(ParameterSet, KeepsPlaceKindAndAnAccumulatorOfZeros) {
  ParameterSet set(1);
  const ModelParameter* matrix = set.add_matrix("matrix", 7, 2, 3, 0.1);
  const ModelParameter* vector = set.add_vector("vector", 8, 4, 0.5);
  EXPECT_EQ(matrix->index, 7U);
  EXPECT_TRUE(matrix->is_matrix);
  EXPECT_FALSE(vector->is_matrix);
  EXPECT_EQ(vector->name, "vector");
  EXPECT_TRUE(at::equal(vector->value, at::full({4}, 0.5)));
  EXPECT_TRUE(at::equal(matrix->grad, at::zeros({2, 3})));
}

TEST(ParameterSet, AddressesSurviveGrowthAndAMove) {
  ParameterSet set(1);
  const ModelParameter* first = set.add_vector("first", 0, 1, 0.0);
  for (std::uint32_t index = 1; index < 100; ++index) (void)set.add_vector("more", index, 1, 0.0);
  ParameterSet moved = std::move(set);
  EXPECT_EQ(&moved.all().front(), first);
  EXPECT_EQ(first->name, "first");
}

}  // namespace
}  // namespace sluice::gpt
