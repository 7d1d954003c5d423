#include "sluice/torch/cuda/allocator_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sluice/error.hpp"

namespace sluice::capture {
namespace {

AllocatorSettings settings_of(const std::string& text) { return {"PYTORCH_ALLOC_CONF", text, true}; }

std::string refused_field(const AllocatorSettings& settings) {
  try {
    check_allocator(settings);
    return "";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(": "));
    return error.field();
  }
}

TEST(AllocatorSettings, FindsTheLastValueOfASetting) {
  const AllocatorSettings settings =
      settings_of("backend:native, roundup_power2_divisions:[256:1,512:2,>:4] ,backend : cudaMallocAsync");
  EXPECT_EQ(settings.find("backend"), "cudaMallocAsync");
  EXPECT_EQ(settings.find("roundup_power2_divisions"), "[256:1,512:2,>:4]");
  EXPECT_EQ(settings.find("512"), std::nullopt);
  EXPECT_EQ(settings.find("expandable_segments"), std::nullopt);
}

TEST(AllocatorSettings, TakesAnyText) {
  for (const char* const text :
       {"", ",", ":", "[", "]", "a", "a:", ":a", ",,backend", "backend:[,", "a:]],b:[["}) {
    SCOPED_TRACE(text);
    EXPECT_NE(settings_of(text).find("backend"), "native");
    EXPECT_EQ(refused_field(settings_of(text)), "");
  }
}

TEST(AllocatorSettings, AcceptsWhatCapturesWorkWith) {
  for (const char* const text :
       {"", "backend:native", "expandable_segments:True", "max_split_size_mb:128",
        "garbage_collection_threshold:0.8", "graph_capture_record_stream_reuse:False",
        "per_process_memory_fraction:0.5", "cudaMallocAsync:backend"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(refused_field(settings_of(text)), "");
  }
}

TEST(AllocatorSettings, RefusesWhatTheyDoNotNamingTheVariable) {
  EXPECT_EQ(refused_field(settings_of("expandable_segments:True,backend:cudaMallocAsync")),
            "PYTORCH_ALLOC_CONF");
  EXPECT_EQ(refused_field({"PYTORCH_CUDA_ALLOC_CONF", "graph_capture_record_stream_reuse:True", true}),
            "PYTORCH_CUDA_ALLOC_CONF");
  EXPECT_EQ(refused_field({"", "", false}), "PYTORCH_NO_CUDA_MEMORY_CACHING");
}

class AllocatorEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

 private:
  static void clear() {
    for (const char* const name :
         {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"})
      ::unsetenv(name);
  }
};

TEST_F(AllocatorEnvironment, IsReadAsTorchDoes) {
  EXPECT_EQ(AllocatorSettings::of_environment().variable, "");
  EXPECT_TRUE(AllocatorSettings::of_environment().caches);
  ::setenv("PYTORCH_ALLOC_CONF", "backend:native", 1);
  EXPECT_EQ(AllocatorSettings::of_environment().text, "backend:native");
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 1);
  EXPECT_EQ(refused_field(AllocatorSettings::of_environment()), "PYTORCH_CUDA_ALLOC_CONF");
  ::setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
  EXPECT_FALSE(AllocatorSettings::of_environment().caches);
}

}  // namespace
}  // namespace sluice::capture
