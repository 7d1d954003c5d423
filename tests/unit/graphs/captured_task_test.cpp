#include "sluice/graphs/captured_task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cuda/cached_chunk.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

TEST(CaptureKey, IsNamedByPassChunkAndSlot) {
  EXPECT_EQ(to_string(CaptureKey{1, Pass::Backward, true, 3}), "B(chunk 1, slot 3, whole)");
  EXPECT_EQ(to_string(CaptureKey{0, Pass::WeightGrad, false, 12}), "W(chunk 0, slot 12)");
}

TEST(CountNodes, TellsKindsApart) {
  const cuda::Stream stream = cuda::make_stream();
  const cuda::DeviceMemory memory(64, "a test");
  cuda::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "beginning");
  cuda::check(cudaMemsetAsync(memory.data(), 0, 32, stream.get()), "filling");
  cuda::check(cudaMemcpyAsync(memory.data() + 32, memory.data(), 32, cudaMemcpyDeviceToDevice, stream.get()),
              "copying");
  cuda::check(cudaLaunchHostFunc(
                  stream.get(), [](void*) {}, nullptr),
              "calling");
  void* within = nullptr;
  cuda::check(cudaMallocAsync(&within, 128, stream.get()), "allocating");
  cuda::check(cudaFreeAsync(within, stream.get()), "freeing");
  cudaGraph_t made = nullptr;
  cuda::check(cudaStreamEndCapture(stream.get(), &made), "ending");
  const cuda::Graph graph(made);
  const NodeCounts counts = count_nodes(graph.get());
  EXPECT_EQ(counts, (NodeCounts{.copies = 1, .fills = 1, .host_functions = 1, .allocations = 2}));
  EXPECT_EQ(counts.total(), 5U);
}

TEST(CountNodes, AnEmptyGraphHasNone) {
  const cuda::Stream stream = cuda::make_stream();
  cuda::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "beginning");
  cudaGraph_t made = nullptr;
  cuda::check(cudaStreamEndCapture(stream.get(), &made), "ending");
  const cuda::Graph graph(made);
  EXPECT_EQ(count_nodes(graph.get()).total(), 0U);
}

/// Temporary files go to a folder of the test's own.
class Dot : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const was = std::getenv("TMPDIR");
    if (was != nullptr) before_ = was;
    folder_ = std::filesystem::temp_directory_path() / ("sluice-dot-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  std::string before_;
  std::filesystem::path folder_;
};

TEST_F(Dot, ShowsTheGraphAndLeavesNoFile) {
  test::CachedChunk chunk({.slots = 1});
  chunk.capture();
  for (std::size_t i = 0; i < chunk.cache().captured().size(); ++i) {
    const std::string dot = chunk.cache().dot(i);
    EXPECT_THAT(dot, ::testing::HasSubstr("digraph"));
    EXPECT_THAT(dot, ::testing::HasSubstr("->"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Dot, AFolderThatCannotBeWrittenIsTold) {
  test::CachedChunk chunk({.slots = 1});
  chunk.capture();
  std::filesystem::remove(folder_);
  EXPECT_THROW(static_cast<void>(chunk.cache().dot(0)), Error);
}

}  // namespace
}  // namespace sluice::graphs
