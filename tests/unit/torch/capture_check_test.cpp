#include "sluice/torch/capture_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sluice/error.hpp"
#include "temporary_folder.hpp"

namespace sluice::capture {
namespace {

/// A module with this code, inside of another one as `block`.
torch::jit::Module nested(const std::string& code) {
  torch::jit::Module inner("Inner");
  inner.register_parameter("weight", torch::ones({8, 8}), false);
  inner.register_attribute("kept", c10::OptionalType::create(c10::TensorType::get()), c10::IValue());
  inner.define("def forward(self, x):\n  " + code + "\n");
  torch::jit::Module outer("Outer");
  outer.register_module("block", inner);
  outer.define("def forward(self, x):\n  return self.block.forward(x)\n");
  return outer;
}

class CaptureCheck : public testing::Test {
 protected:
  [[nodiscard]] std::string saved(const std::string& code) const {
    const std::string path = (folder_ / "module.pt").string();
    nested(code).save(path);
    return path;
  }
  [[nodiscard]] CheckReport check(const std::string& code, bool forward_only = false) const {
    return check_capture(saved(code), {{Input::parse("float32[4,8]")}, 1, forward_only});
  }

  test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

const Finding* find(const CheckReport& report, Fault fault, bool backward = false) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(), [&](const Finding& each) {
    return each.fault == fault && each.backward == backward;
  });
  return found == report.findings.end() ? nullptr : &*found;
}

TEST_F(CaptureCheck, AGoodModuleHasNoFindings) {
  const CheckReport report = check("return torch.relu(torch.matmul(x, self.weight)) * 2");
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.capturable());
  EXPECT_EQ(report.forward_operators, 3U);
  EXPECT_GT(report.backward_operators, 0U);
  EXPECT_EQ(report.without_backward, "");
}

struct BadModule {
  const char* name;
  const char* code;
  Fault fault;
  Severity severity;
  const char* op;
};

class CaptureCheckOfBad : public CaptureCheck, public testing::WithParamInterface<BadModule> {};

TEST_P(CaptureCheckOfBad, IsFoundInItsModule) {
  const CheckReport report = check(GetParam().code, true);
  const Finding* finding = find(report, GetParam().fault);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, GetParam().severity);
  EXPECT_EQ(finding->module, "block");
  EXPECT_EQ(finding->op, GetParam().op);
  EXPECT_FALSE(finding->what.empty());
  EXPECT_FALSE(finding->advice.empty());
  EXPECT_FALSE(report.capturable());
}

INSTANTIATE_TEST_SUITE_P(
    All, CaptureCheckOfBad,
    testing::Values(
        BadModule{"Item", "return x * x.sum().item()", Fault::HostSync, Severity::StopsCapture, "aten::item"},
        BadModule{"Cpu", "return x.cpu()", Fault::HostSync, Severity::StopsCapture, "aten::to"},
        BadModule{"ResultOnHost", "return x.cpu()", Fault::HostTensor, Severity::SilentlyWrong, "aten::to"},
        BadModule{"NonZero", "return torch.nonzero(x)", Fault::DynamicShape, Severity::StopsCapture,
                  "aten::nonzero"},
        BadModule{"Mask", "return x[x > 0]", Fault::DynamicShape, Severity::StopsCapture, "aten::index"},
        BadModule{"HostTensor", "return x + torch.ones([8])", Fault::HostTensor, Severity::StopsCapture,
                  "aten::add"},
        BadModule{"HostRandom", "return x * float(torch.rand([1]))", Fault::HostRandom,
                  Severity::SilentlyWrong, "aten::rand"},
        BadModule{"Escape", "self.kept = x * 2\n  return x + 1", Fault::EscapingMemory,
                  Severity::SilentlyWrong, "aten::mul"},
        BadModule{"InputModified", "return x.mul_(2).exp()", Fault::InputModified, Severity::SilentlyWrong,
                  "aten::mul_"}),
    [](const auto& module) { return std::string(module.param.name); });

TEST_F(CaptureCheck, FlowThatDependsOnValuesIsFoundByRunningTwice) {
  const CheckReport report = check("if bool(x.sum() > 0):\n    x = x.exp()\n  return x * 2", true);
  const Finding* flow = find(report, Fault::ValueDependentFlow);
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(flow->severity, Severity::SilentlyWrong);
  EXPECT_EQ(flow->module, "block");
  EXPECT_NE(find(report, Fault::HostSync), nullptr);
}

TEST_F(CaptureCheck, TheBackwardIsObservedAndNamedByItsForward) {
  const CheckReport report = check("return x * x[x > 0].sum()");
  const Finding* finding = find(report, Fault::DynamicShape, true);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->module, "block");
  EXPECT_EQ(finding->chain.front(), "IndexBackward0");
}

TEST_F(CaptureCheck, RandomNumbersOfTheDeviceAreOnlyNoted) {
  const CheckReport report = check("return torch.dropout(x, 0.5, True)");
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().fault, Fault::DeviceRandom);
  EXPECT_EQ(report.findings.front().severity, Severity::Note);
  EXPECT_TRUE(report.capturable());
}

TEST_F(CaptureCheck, TensorsMadeOnTheDeviceOfAnInputAreGood) {
  EXPECT_TRUE(check("return x + torch.ones([8], device=x.device)").findings.empty());
}

TEST_F(CaptureCheck, ACudaDeviceInTheCodeIsTheCheckedOne) {
  const CheckReport report = check("if x.is_cuda:\n    x = x.to(torch.device(\"cuda\"))\n  return x * 2");
  EXPECT_TRUE(report.findings.empty());
}

TEST_F(CaptureCheck, AModuleWithoutGradientsHasNoBackward) {
  const CheckReport report = check("return torch.argmax(x, 1)");
  EXPECT_TRUE(report.capturable());
  EXPECT_NE(report.without_backward, "");
  EXPECT_EQ(report.backward_operators, 0U);
}

TEST_F(CaptureCheck, BadInputIsRefused) {
  const auto field_of = [](const std::string& path, std::vector<Input> inputs) {
    try {
      (void)check_capture(path, {std::move(inputs), 1, true});
    } catch (const ConfigError& error) {
      return error.field();
    }
    return std::string("accepted");
  };
  const std::string text = (folder_ / "text.pt").string();
  std::ofstream(text) << "no module";
  const Input input = Input::parse("float32[4,8]");
  EXPECT_EQ(field_of((folder_ / "missing.pt").string(), {input}), "module");
  EXPECT_EQ(field_of(text, {input}), "module");
  EXPECT_EQ(field_of(folder_.string(), {input}), "module");
  EXPECT_EQ(field_of(saved("return x"), {}), "input");
  EXPECT_EQ(field_of(saved("return x"), {input, input}), "input");
}

TEST_F(CaptureCheck, AModuleThatThrowsOnTheHostIsAnError) {
  try {
    (void)check("return torch.matmul(x, x)");
    FAIL() << "multiplied matrices that do not fit";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the module throws for these inputs: mat1 and mat2"));
  }
}

}  // namespace
}  // namespace sluice::capture
