#include "script_code.hpp"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "script_file.hpp"
#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

class ScriptCodes : public ::testing::Test {
 protected:
  [[nodiscard]] ScriptCode load(const std::string& arguments, const std::string& body,
                                const std::vector<std::string>& inputs) const {
    test::module_of(arguments, body).save(folder_.file("stage.pt"));
    return {folder_.file("stage.pt"), parsed(inputs), at::kCPU};
  }
  [[nodiscard]] static std::vector<Input> parsed(const std::vector<std::string>& inputs) {
    std::vector<Input> all;
    for (const std::string& input : inputs) all.push_back(Input::parse(input));
    return all;
  }
  void expect_refused(const std::string& arguments, const std::string& body,
                      const std::vector<std::string>& inputs, const std::string& field,
                      const std::string& why) const {
    SCOPED_TRACE(body);
    try {
      static_cast<void>(load(arguments, body, inputs));
      FAIL() << "loaded";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.field(), field);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  }

  test::TemporaryFolder folder_;
};

TEST_F(ScriptCodes, LearnsWhatTheModuleTakesAndReturns) {
  const ScriptCode code =
      load("x, n: int, y", "  return torch.matmul(x, self.weight), y[0:n].float() * self.bias\n",
           {"float32[4,8]", "int=2", "int64[3,8]:5"});
  EXPECT_THAT(code.inputs(), ::testing::ElementsAre(TensorShape{kDLFloat, 32, 2, {4, 8}},
                                                    TensorShape{kDLInt, 64, 2, {3, 8}}));
  EXPECT_THAT(code.outputs(), ::testing::ElementsAre(TensorShape{kDLFloat, 32, 2, {4, 8}},
                                                     TensorShape{kDLFloat, 32, 2, {2, 8}}));
  EXPECT_FALSE(code.ends_in_loss());
  ASSERT_EQ(code.trained().size(), 2U);
  EXPECT_EQ(code.trained()[0].name, "weight");
  EXPECT_TRUE(at::equal(code.trained()[0].grad, at::zeros({8, 8})));
}

TEST_F(ScriptCodes, OneNumberIsALoss) {
  const ScriptCode code = load("x", "  return torch.matmul(x, self.weight).mean()\n", {"float32[4,8]"});
  EXPECT_TRUE(code.ends_in_loss());
  EXPECT_TRUE(code.outputs().empty());
}

TEST_F(ScriptCodes, LearningLeavesTheBuffersAsTheyWere) {
  const ScriptCode code = load("x", "  self.calls.add_(1)\n  return x * self.bias\n", {"float32[4,8]"});
  ASSERT_EQ(code.buffers().size(), 1U);
  EXPECT_EQ(code.buffers()[0].item<float>(), 0.0F);
}

TEST_F(ScriptCodes, SharedParametersCountOnce) {
  torch::jit::Module tied("Tied");
  const at::Tensor weight = torch::ones({8, 8}).set_requires_grad(true);
  tied.register_parameter("weight", weight, false);
  tied.register_parameter("tied", weight, false);
  tied.define("def forward(self, x):\n  return torch.matmul(x, self.weight) + torch.matmul(x, self.tied)\n");
  tied.save(folder_.file("tied.pt"));
  const ScriptCode code(folder_.file("tied.pt"), parsed({"float32[4,8]"}), at::kCPU);
  EXPECT_EQ(code.trained().size(), 1U);
}

TEST_F(ScriptCodes, RefusesWhatIsNoStage) {
  expect_refused("x", "  return 3\n", {"float32[4,8]"}, "module", "returns Int");
  expect_refused("x", "  return x, 'text'\n", {"float32[4,8]"}, "module", "returns String");
  expect_refused("x", "  return x.detach()\n", {"float32[4,8]"}, "module", "requires a gradient");
  expect_refused("x", "  return x * 2\n", {"int64[4,8]"}, "module", "requires a gradient");
  expect_refused("x", "  return torch.matmul(x, self.weight)\n", {"float32[4,7]"}, "module", "does not run");
  expect_refused("x", "  return x\n", {}, "input", "forward(x: Tensor) takes 1, 0 given");
  try {
    ScriptCode(folder_.file("none.pt"), {}, at::kCPU);
    FAIL() << "loaded";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "module");
  }
}

TEST_F(ScriptCodes, RefusesAnotherNumberOfTensors) {
  ScriptCode code = load("x", "  return x * self.bias\n", {"float32[4,8]"});
  EXPECT_THROW(static_cast<void>(code.forward({}, nullptr, 0)), Error);
  EXPECT_THROW(static_cast<void>(code.forward({at::ones({4, 8}), at::ones({4, 8})}, nullptr, 0)), Error);
}

TEST_F(ScriptCodes, ABackwardIsTheSameEachTime) {
  ScriptCode code =
      load("x", "  return torch.matmul(torch.gelu(torch.matmul(x, self.weight)), self.weight)\n",
           {"float32[4,8]"});
  torch::manual_seed(5);
  const at::Tensor x = at::randn({4, 8});
  const at::Tensor dy = at::randn({4, 8});
  const auto run = code.forward({x}, nullptr, 0);
  const at::Tensor first = run->backward({dy}, true).input_grads[0].clone();
  const at::Tensor once = code.trained()[0].grad.clone();
  EXPECT_TRUE(at::equal(run->backward({dy}, true).input_grads[0], first));
  EXPECT_TRUE(at::equal(code.trained()[0].grad, once + once));
  EXPECT_GT(once.abs().max().item<float>(), 0.0F);
}

TEST_F(ScriptCodes, ASplitBackwardAddsUpToTheWhole) {
  ScriptCode code =
      load("x", "  return torch.gelu(torch.addmm(self.bias, x, self.weight))\n", {"float32[4,8]"});
  torch::manual_seed(5);
  const at::Tensor x = at::randn({4, 8});
  const at::Tensor dy = at::randn({4, 8});
  const auto run = code.forward({x}, nullptr, 0);
  const Differentiated whole = run->backward({dy}, true);
  EXPECT_FALSE(whole.weight_grad);
  std::vector<at::Tensor> expected;
  for (const TrainedTensor& tensor : code.trained()) expected.push_back(tensor.grad.clone());
  for (const TrainedTensor& tensor : code.trained()) tensor.grad.zero_();
  const Differentiated split = run->backward({dy}, false);
  EXPECT_TRUE(at::equal(split.input_grads[0], whole.input_grads[0]));
  EXPECT_EQ(code.trained()[0].grad.abs().max().item<float>(), 0.0F);
  split.weight_grad();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(code.trained()[i].grad, expected[i])) << code.trained()[i].name;
}

}  // namespace
}  // namespace sluice::capture
