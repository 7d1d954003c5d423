#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

class GraphsTest : public DeviceTest {
 protected:
  static constexpr int kBranches = 4;
  static constexpr int kLength = 6;
  static constexpr int kCount = 32;

  static Graph capture(const Stream& stream, const std::function<void()>& enqueue) {
    EXPECT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    enqueue();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
    return Graph(graph);
  }

  static GraphExec instantiate(const Graph& graph, unsigned long long flags = 0) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec, graph.get(), flags), cudaSuccess);
    return GraphExec(exec);
  }

  static std::size_t node_count(const Graph& graph) {
    std::size_t count = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph.get(), nullptr, &count), cudaSuccess);
    return count;
  }

  static std::map<cudaGraphNodeType, int> nodes_by_type(const Graph& graph) {
    std::size_t count = node_count(graph);
    std::vector<cudaGraphNode_t> nodes(count);
    EXPECT_EQ(cudaGraphGetNodes(graph.get(), nodes.data(), &count), cudaSuccess);
    std::map<cudaGraphNodeType, int> numbers;
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
      EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
      ++numbers[type];
    }
    return numbers;
  }

  static void launch_and_wait(const GraphExec& exec, const Stream& stream) {
    EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  }
};

/// A fork into branches, each a chain of kernels on its own numbers, joined and added up: 31 nodes.
class BranchedStage {
 public:
  explicit BranchedStage(int branches, int length, int count)
      : length_(length), count_(count), input_(count), output_(count), source_(count), result_(count) {
    for (int i = 0; i < branches; ++i) {
      numbers_.push_back(std::make_unique<Numbers>(count));
      streams_.push_back(new_stream());
      joins_.push_back(new_event());
    }
  }

  void enqueue(cudaStream_t stream) {
    EXPECT_EQ(cudaMemcpyAsync(input_.data(), source_.data(), input_.bytes(), cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(output_.data(), 0, output_.bytes(), stream), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(fork_.get(), stream), cudaSuccess);
    for (std::size_t i = 0; i < streams_.size(); ++i) enqueue_branch(i);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      EXPECT_EQ(cudaStreamWaitEvent(stream, joins_[i].get(), 0), cudaSuccess);
      EXPECT_EQ(add(output_.data(), numbers_[i]->data(), output_.data(), count_, stream), cudaSuccess);
    }
    EXPECT_EQ(
        cudaMemcpyAsync(result_.data(), output_.data(), output_.bytes(), cudaMemcpyDeviceToHost, stream),
        cudaSuccess);
  }

  void set_input(int value) {
    for (int i = 0; i < count_; ++i) source_[i] = value + i;
  }

  /// Of the i-th number.
  [[nodiscard]] int result(int i) const { return result_[i]; }
  [[nodiscard]] int expected(int i) const {
    int sum = 0;
    for (std::size_t branch = 0; branch < streams_.size(); ++branch) {
      int value = 2 * source_[i];
      for (int step = 1; step < length_; ++step) value *= static_cast<int>(branch) % 3 + 1;
      sum += value;
    }
    return sum;
  }

 private:
  void enqueue_branch(std::size_t branch) {
    cudaStream_t stream = streams_[branch].get();
    int* numbers = numbers_[branch]->data();
    EXPECT_EQ(cudaStreamWaitEvent(stream, fork_.get(), 0), cudaSuccess);
    EXPECT_EQ(add(input_.data(), input_.data(), numbers, count_, stream), cudaSuccess);
    for (int step = 1; step < length_; ++step) {
      EXPECT_EQ(scale(numbers, count_, static_cast<int>(branch) % 3 + 1, stream), cudaSuccess);
    }
    EXPECT_EQ(cudaEventRecord(joins_[branch].get(), stream), cudaSuccess);
  }

  int length_;
  int count_;
  Numbers input_;
  Numbers output_;
  PinnedNumbers source_;
  PinnedNumbers result_;
  Event fork_ = new_event();
  std::vector<std::unique_ptr<Numbers>> numbers_;
  std::vector<Stream> streams_;
  std::vector<Event> joins_;
};

TEST_F(GraphsTest, RunsForksAndJoinsOnNewData) {
  const Stream stream = new_stream();
  BranchedStage stage(kBranches, kLength, kCount);
  const Graph graph = capture(stream, [&] { stage.enqueue(stream.get()); });
  EXPECT_EQ(node_count(graph), 3U + kBranches * (kLength + 1));
  const GraphExec exec = instantiate(graph, cudaGraphInstantiateFlagUpload);
  for (int round = 0; round < 20; ++round) {
    stage.set_input(round);
    launch_and_wait(exec, stream);
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(stage.result(i), stage.expected(i)) << "round " << round;
  }
}

TEST_F(GraphsTest, NamesItsNodesAndEdges) {
  const Stream stream = new_stream();
  BranchedStage stage(2, 2, kCount);
  const Graph graph = capture(stream, [&] { stage.enqueue(stream.get()); });
  const auto types = nodes_by_type(graph);
  EXPECT_EQ(types.at(cudaGraphNodeTypeKernel), 6);
  EXPECT_EQ(types.at(cudaGraphNodeTypeMemcpy), 2);
  EXPECT_EQ(types.at(cudaGraphNodeTypeMemset), 1);
  std::size_t edges = 0;
  EXPECT_EQ(cudaGraphGetEdges(graph.get(), nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_EQ(edges, 10U);
  std::vector<cudaGraphNode_t> from(edges);
  std::vector<cudaGraphNode_t> to(edges);
  std::vector<cudaGraphEdgeData> data(edges);
  EXPECT_EQ(cudaGraphGetEdges(graph.get(), from.data(), to.data(), data.data(), &edges), cudaSuccess);
  std::size_t roots = 0;
  EXPECT_EQ(cudaGraphGetRootNodes(graph.get(), nullptr, &roots), cudaSuccess);
  EXPECT_EQ(roots, 1U);
  std::size_t before = 0;
  EXPECT_EQ(cudaGraphNodeGetDependencies(to.back(), nullptr, nullptr, &before), cudaSuccess);
  EXPECT_EQ(before, static_cast<std::size_t>(std::count(to.begin(), to.end(), to.back())));
}

TEST_F(GraphsTest, RunsBehindWhatIsOnTheStream) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  const Graph graph = capture(stream, [&] { scale(numbers.data(), 1, 10, stream.get()); });
  const GraphExec exec = instantiate(graph);
  EXPECT_EQ(count_up(numbers.data(), 1, 4, stream.get()), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 400);
}

TEST_F(GraphsTest, LaunchesOnTwoStreamsTakeTurns) {
  const Stream first = new_stream();
  const Stream second = new_stream();
  const Numbers numbers(1);
  const PinnedNumbers result(1);
  EXPECT_EQ(cudaMemset(numbers.data(), 0, numbers.bytes()), cudaSuccess);
  EXPECT_EQ(count_up(numbers.data(), 1, 1, first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(first.get()), cudaSuccess);
  const Graph graph = capture(first, [&] { scale(numbers.data(), 1, 2, first.get()); });
  const GraphExec exec = instantiate(graph);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(cudaGraphLaunch(exec.get(), first.get()), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(exec.get(), second.get()), cudaSuccess);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(result.data(), numbers.data(), sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(result[0], 1024);
}

TEST_F(GraphsTest, MayBeDestroyedWhileTheyRun) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  Gate gate(stream.get());
  {
    const Graph graph = capture(new_stream(), [] {});
    EXPECT_EQ(node_count(graph), 0U);
  }
  {
    const Stream capturing = new_stream();
    const GraphExec exec =
        instantiate(capture(capturing, [&] { count_up(numbers.data(), 1, 9, capturing.get()); }));
    EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaSuccess);
  }
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 9);
}

TEST_F(GraphsTest, TakesNewParametersOfTheSameShape) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(2);
  const auto capture_with = [&](int first) {
    return capture(stream, [&, first] { count_up(numbers.data(), 2, first, stream.get()); });
  };
  const Graph before = capture_with(1);
  const Graph after = capture_with(100);
  const GraphExec exec = instantiate(before);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(exec.get(), after.get(), &info), cudaSuccess);
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  launch_and_wait(exec, stream);
  EXPECT_EQ(numbers[1], 101);
}

TEST_F(GraphsTest, RefusesTheParametersOfAnotherShape) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(2);
  const Graph one = capture(stream, [&] { count_up(numbers.data(), 2, 3, stream.get()); });
  const Graph two = capture(stream, [&] {
    count_up(numbers.data(), 2, 3, stream.get());
    scale(numbers.data(), 2, 3, stream.get());
  });
  const Graph fill = capture(stream, [&] { cudaMemsetAsync(numbers.data(), 0, 8, stream.get()); });
  const GraphExec exec = instantiate(one);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(exec.get(), two.get(), &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT_EQ(cudaGraphExecUpdate(exec.get(), fill.get(), &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorNodeTypeChanged);
  EXPECT_NE(info.errorNode, nullptr);
  launch_and_wait(exec, stream);
  EXPECT_EQ(numbers[1], 4) << "as it was";
}

TEST_F(GraphsTest, CanBeCopied) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  cudaGraph_t handle = nullptr;
  {
    const Graph graph = capture(stream, [&] { count_up(numbers.data(), 1, 8, stream.get()); });
    EXPECT_EQ(cudaGraphClone(&handle, graph.get()), cudaSuccess);
  }
  const Graph copy(handle);
  EXPECT_EQ(node_count(copy), 1U);
  launch_and_wait(instantiate(copy), stream);
  EXPECT_EQ(numbers[0], 8);
}

TEST_F(GraphsTest, CanBeDrawn) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  const Graph graph = capture(stream, [&] {
    count_up(numbers.data(), 1, 8, stream.get());
    scale(numbers.data(), 1, 8, stream.get());
  });
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("graph-" + std::to_string(getpid()) + ".dot");
  EXPECT_EQ(cudaGraphDebugDotPrint(graph.get(), path.c_str(), cudaGraphDebugDotFlagsVerbose), cudaSuccess);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_EQ(text.str().rfind("digraph", 0), 0U);
  EXPECT_NE(text.str().find("->"), std::string::npos);
  EXPECT_NE(text.str().find("scale_kernel"), std::string::npos);
  EXPECT_NE(cudaGraphDebugDotPrint(graph.get(), "/nowhere/graph.dot", 0), cudaSuccess);
}

TEST_F(GraphsTest, TellsTheParametersOfItsKernels) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(300);
  const Graph graph = capture(stream, [&] { count_up(numbers.data(), 300, 8, stream.get()); });
  cudaGraphNode_t node = nullptr;
  std::size_t count = 1;
  ASSERT_EQ(cudaGraphGetNodes(graph.get(), &node, &count), cudaSuccess);
  cudaKernelNodeParams parameters{};
  EXPECT_EQ(cudaGraphKernelNodeGetParams(node, &parameters), cudaSuccess);
  EXPECT_EQ(parameters.gridDim.x, 3U);
  EXPECT_EQ(parameters.blockDim.x, 128U);
  EXPECT_EQ(*static_cast<int*>(parameters.kernelParams[1]), 300);
}

TEST_F(GraphsTest, RunsHostFunctionsAtEveryLaunch) {
  const Stream stream = new_stream();
  std::atomic<int> calls{0};
  const Graph graph = capture(stream, [&] {
    cudaLaunchHostFunc(
        stream.get(), [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls);
  });
  const GraphExec exec = instantiate(graph);
  EXPECT_EQ(calls.load(), 0);
  for (int i = 0; i < 3; ++i) launch_and_wait(exec, stream);
  EXPECT_EQ(calls.load(), 3);
}

TEST_F(GraphsTest, TakesMemoryAndGivesItBackAtEveryLaunch) {
  const Stream stream = new_stream();
  const PinnedNumbers result(64);
  void* memory = nullptr;
  const Graph graph = capture(stream, [&] {
    EXPECT_EQ(cudaMallocAsync(&memory, result.bytes(), stream.get()), cudaSuccess);
    count_up(static_cast<int*>(memory), 64, 1, stream.get());
    cudaMemcpyAsync(result.data(), memory, result.bytes(), cudaMemcpyDeviceToHost, stream.get());
    EXPECT_EQ(cudaFreeAsync(memory, stream.get()), cudaSuccess);
  });
  const auto types = nodes_by_type(graph);
  EXPECT_EQ(types.at(cudaGraphNodeTypeMemAlloc), 1);
  EXPECT_EQ(types.at(cudaGraphNodeTypeMemFree), 1);
  const GraphExec exec = instantiate(graph);
  for (int i = 0; i < 3; ++i) launch_and_wait(exec, stream);
  EXPECT_EQ(result[63], 64);
  std::uint64_t used = 1;
  std::uint64_t high = 0;
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &high), cudaSuccess);
  EXPECT_EQ(used, 0U);
  EXPECT_GE(high, result.bytes());
  EXPECT_EQ(cudaDeviceGraphMemTrim(0), cudaSuccess);
}

TEST_F(GraphsTest, MemoryThatItKeepsForbidsALaunchUntilItIsFreed) {
  const Stream stream = new_stream();
  void* memory = nullptr;
  const Graph graph = capture(stream, [&] { cudaMallocAsync(&memory, 256, stream.get()); });
  const GraphExec exec = instantiate(graph);
  launch_and_wait(exec, stream);
  EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(memory, stream.get()), cudaSuccess);
  launch_and_wait(exec, stream);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(GraphsTest, MemoryOutsideOfItsNodesIsReported) {
  if (!fake()) GTEST_SKIP() << "leaves a real device unusable";
  const Stream stream = new_stream();
  void* memory = nullptr;
  const Graph graph = capture(stream, [&] {
    cudaMallocAsync(&memory, 256, stream.get());
    cudaFreeAsync(memory, stream.get());
    cudaMemsetAsync(memory, 0, 256, stream.get());
  });
  const GraphExec exec = instantiate(graph);
  EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  fakecuda_recover();
}

TEST_F(GraphsTest, AreNotLaunchedIntoACapture) {
  const Stream stream = new_stream();
  const Graph graph = capture(stream, [] {});
  const GraphExec exec = instantiate(graph);
  EXPECT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  if (fake()) {
    EXPECT_EQ(cudaGraphLaunch(exec.get(), stream.get()), cudaErrorStreamCaptureUnsupported);
  }
  cudaGraph_t none = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream.get(), &none));
  const Graph empty(none);
}

}  // namespace
}  // namespace fake_cuda_tests
