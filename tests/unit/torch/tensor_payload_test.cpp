#include "sluice/torch/tensor_payload.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

TEST(TensorPayload, PassesElementsWithoutACopy) {
  const at::Tensor sent = at::arange(6, at::kFloat).view({2, 3});
  const at::Tensor received = from_message(to_message(sent));
  EXPECT_EQ(received.const_data_ptr(), sent.const_data_ptr());
  EXPECT_TRUE(at::equal(received, sent));
}

TEST(TensorPayload, KeepsTheElementsAliveAfterTheSenderLetGo) {
  at::Tensor sent = at::full({1000}, 7.0);
  host::TensorPtr message = to_message(sent);
  sent.reset();
  EXPECT_TRUE(at::equal(from_message(std::move(message)), at::full({1000}, 7.0)));
}

TEST(TensorPayload, LeavesTheGraphBehind) {
  const at::Tensor leaf = at::ones({2}).requires_grad_(true);
  EXPECT_FALSE(from_message(to_message(leaf * 2)).requires_grad());
}

TEST(TensorPayload, MakesTensorsContiguous) {
  const at::Tensor transposed = at::arange(6, at::kFloat).view({2, 3}).t();
  const at::Tensor received = from_message(to_message(transposed));
  EXPECT_TRUE(received.is_contiguous());
  EXPECT_TRUE(at::equal(received, transposed));
}

TEST(TensorPayload, TheOnlyTensorOfTheOnlyEdgeComesBack) {
  std::array<host::Payload, 1> edges;
  put_single(at::ones({3}), edges, "activation");
  EXPECT_TRUE(at::equal(take_single(edges, "activation"), at::ones({3})));
  EXPECT_TRUE(edges[0].empty());
}

TEST(TensorPayload, AnyOtherNumberOfEdgesOrTensorsIsAnErrorThatNamesTheMessage) {
  std::array<host::Payload, 2> edges;
  EXPECT_THROW(put_single(at::ones({3}), edges, "activation"), Error);
  EXPECT_THROW((void)take_single(edges, "gradient"), Error);
  try {
    (void)take_single(std::span(edges).first(1), "gradient");
    FAIL() << "took a tensor from an empty payload";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("one tensor as gradient, got 0"));
  }
}

}  // namespace
}  // namespace sluice::gpt
