#include "sluice/graphs/plugin.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::graphs {
namespace {

/// A call as the program that loads a plug-in makes it.
struct Asked {
  Asked() {
    call.arguments = &arguments;
    call.targets = &targets;
    call.error = &error;
  }

  PluginArguments arguments{{"width", "64"}};
  std::vector<CaptureTarget> targets;
  std::string error;
  PluginCall call;
};

std::vector<CaptureTarget> one_named_for_the_width(const PluginArguments& arguments) {
  std::vector<CaptureTarget> targets(1);
  targets.front().name = arguments.at("width");
  return targets;
}

TEST(PluginAnswer, IsWhatTheArgumentsAskFor) {
  Asked asked;
  ASSERT_EQ(answer(asked.call, one_named_for_the_width), static_cast<int>(PluginAnswer::GaveTargets));
  ASSERT_EQ(asked.targets.size(), 1U);
  EXPECT_EQ(asked.targets.front().name, "64");
  EXPECT_EQ(asked.call.plugin, PluginAbi{});
}

TEST(PluginAnswer, ToAnotherAbiIsARefusalThatTouchesNothing) {
  const auto never = [](const PluginArguments&) -> std::vector<CaptureTarget> {
    throw std::logic_error("called");
  };
  for (const auto change :
       {+[](PluginAbi& abi) { ++abi.interface_version; }, +[](PluginAbi& abi) { ++abi.cuda_version; },
        +[](PluginAbi& abi) { ++abi.layout; }}) {
    PluginCall call;
    change(call.host);
    EXPECT_EQ(answer(call, never), static_cast<int>(PluginAnswer::IsOfAnotherAbi));
    EXPECT_EQ(call.plugin, PluginAbi{});
  }
}

TEST(PluginAnswer, CarriesAnExceptionOverAsText) {
  Asked asked;
  const auto fails = [](const PluginArguments& arguments) {
    return one_named_for_the_width({{"x", arguments.at("width")}});
  };
  EXPECT_EQ(answer(asked.call, fails), static_cast<int>(PluginAnswer::Failed));
  EXPECT_NE(asked.error, "");
  EXPECT_TRUE(asked.targets.empty());
  const auto throws_number = [](const PluginArguments&) -> std::vector<CaptureTarget> { throw 7; };
  EXPECT_EQ(answer(asked.call, throws_number), static_cast<int>(PluginAnswer::Failed));
  EXPECT_EQ(asked.error, "an exception that is no std::exception");
}

}  // namespace
}  // namespace sluice::graphs
