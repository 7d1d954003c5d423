#include "sluice/torch/cuda/script_stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

TEST(ScriptStage, NeedsATorchWithCuda) {
  if (torch_has_cuda()) GTEST_SKIP() << "this LibTorch has CUDA";
  try {
    static_cast<void>(load_script("stage.pt", {Input::parse("float32[4,8]")}, {}));
    FAIL() << "loaded";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "device");
    EXPECT_THAT(error.what(), ::testing::HasSubstr("stage.pt"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--check"));
  }
}

}  // namespace
}  // namespace sluice::capture
