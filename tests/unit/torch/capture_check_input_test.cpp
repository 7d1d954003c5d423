#include "sluice/torch/capture_check_input.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

TEST(CaptureInput, ReadsATensor) {
  const Input input = Input::parse("float32[4,64,96]");
  EXPECT_EQ(input.kind, Input::Kind::Tensor);
  EXPECT_EQ(input.dtype, "float32");
  EXPECT_EQ(input.shape, (std::vector<std::int64_t>{4, 64, 96}));
  EXPECT_TRUE(Input::parse("bool[]").shape.empty());
}

TEST(CaptureInput, ReadsTheBoundOfWholeNumbers) {
  EXPECT_EQ(Input::parse("int64[4,64]:50257").bound, 50257);
  EXPECT_EQ(Input::parse("uint8[4]:255").bound, 255);
  EXPECT_EQ(Input::parse("int64[4,64]").bound, 2);
}

TEST(CaptureInput, ReadsNumbers) {
  EXPECT_EQ(Input::parse("int=-3").whole, -3);
  EXPECT_EQ(Input::parse("int=-3").kind, Input::Kind::Int);
  EXPECT_EQ(Input::parse("float=0.5").value, 0.5);
  EXPECT_EQ(Input::parse("bool=true").whole, 1);
  EXPECT_EQ(Input::parse("bool=false").whole, 0);
}

TEST(CaptureInput, IsWrittenAsItIsRead) {
  for (const std::string text :
       {"float32[4,64,96]", "int64[4,64]:50257", "bool[2]", "int=3", "float=0.5", "bool=true"})
    EXPECT_EQ(to_string(Input::parse(text)), text);
}

class CaptureInputRefused : public testing::TestWithParam<const char*> {};

TEST_P(CaptureInputRefused, NamesTheOption) {
  try {
    (void)Input::parse(GetParam());
    FAIL() << "accepted " << GetParam();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "input");
    EXPECT_NE(std::string(error.what()).find(GetParam()), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, CaptureInputRefused,
                         testing::Values("", "float32", "[4]", "float33[4]", "float32[4", "float32]4[",
                                         "float32[4,]", "float32[,4]", "float32[0]", "float32[-1]",
                                         "float32[4x]", "float32[4]x", "float32[4]:3", "int64[4]:0",
                                         "int64[4]:", "int8[4]:128", "float32[99999999,99999999]",
                                         "float32[99999999999999999999]", "int=", "int=1.5", "float=x",
                                         "float=nan", "bool=1", "text=a", "=3"));

}  // namespace
}  // namespace sluice::capture
