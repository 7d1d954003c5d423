#include "sluice/graphs/plugin_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "sluice/error.hpp"

/// What real plug-ins do is tested by tests/integration/capture_plugin_cuda_test.py.
namespace sluice::graphs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal_of(const std::string& path) {
  try {
    static_cast<void>(load_plugin(path, {}));
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "plugin");
    return error.what();
  }
  return "loaded";
}

TEST(PluginLoader, AFileThatIsNotThereIsNotLookedUpElsewhere) {
  EXPECT_EQ(refusal_of("libc.so.6"), "plugin: libc.so.6 is not a file");
  EXPECT_EQ(refusal_of("/"), "plugin: / is not a file");
  EXPECT_EQ(refusal_of(""), "plugin:  is not a file");
}

TEST(PluginLoader, APathThatCannotBeLookedAtIsRefusedWithTheReason) {
  const std::string path(5000, 'a');
  EXPECT_EQ(refusal_of(path), "plugin: " + path + " cannot be looked at: File name too long");
}

TEST(PluginLoader, WhatIsNoLibraryIsRefusedWithTheLoadersReason) {
  EXPECT_THAT(refusal_of("/proc/self/maps"), StartsWith("plugin: /proc/self/maps cannot be loaded: "));
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_THAT(refusal_of(program), AllOf(HasSubstr(program), HasSubstr("cannot be loaded")));
}

}  // namespace
}  // namespace sluice::graphs
