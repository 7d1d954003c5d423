#include <functional>
#include <thread>

#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

class CaptureTest : public DeviceTest {
 protected:
  void begin(cudaStreamCaptureMode mode, const Stream& stream) {
    ASSERT_EQ(cudaStreamBeginCapture(stream.get(), mode), cudaSuccess);
  }

  /// Ends the capture, whose outcome is to be this.
  void end(const Stream& stream, cudaError_t expected) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), expected);
    EXPECT_EQ(graph != nullptr, expected == cudaSuccess);
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
  }

  static cudaError_t in_another_thread(const std::function<cudaError_t()>& call) {
    cudaError_t result = cudaErrorUnknown;
    std::thread([&] { result = call(); }).join();
    return result;
  }

  static cudaStreamCaptureStatus status(const Stream& stream) {
    cudaStreamCaptureStatus value = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream.get(), &value), cudaSuccess);
    return value;
  }
};

TEST_F(CaptureTest, RunsNothing) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(status(stream), cudaStreamCaptureStatusActive);
  EXPECT_EQ(count_up(numbers.data(), 1, 5, stream.get()), cudaSuccess);
  end(stream, cudaSuccess);
  EXPECT_EQ(status(stream), cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(numbers[0], 0);
}

TEST_F(CaptureTest, IsBrokenByWaitingForItsStream) {
  const Stream stream = new_stream();
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    begin(mode, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(status(stream), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(cudaMemsetAsync(nullptr, 0, 0, stream.get()), cudaSuccess) << "nothing to do";
    end(stream, cudaErrorStreamCaptureInvalidated);
    begin(mode, stream);
    EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorStreamCaptureUnsupported);
    end(stream, cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(CaptureTest, IsBrokenByWaitingForItsDevice) {
  const Stream stream = new_stream();
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(in_another_thread(cudaDeviceSynchronize), cudaErrorStreamCaptureUnsupported);
  end(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, ForbidsAllocationsOfItsThread) {
  const Stream stream = new_stream();
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    begin(mode, stream);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
    end(stream, cudaErrorStreamCaptureInvalidated);
  }
  begin(cudaStreamCaptureModeRelaxed, stream);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  end(stream, cudaSuccess);
}

TEST_F(CaptureTest, InGlobalModeIsBrokenByAnEventQueryElsewhere) {
  const Stream stream = new_stream();
  const Event event = new_event();
  const auto query = [&] { return cudaEventQuery(event.get()); };
  begin(cudaStreamCaptureModeGlobal, stream);
  EXPECT_EQ(in_another_thread(query), cudaErrorStreamCaptureUnsupported);
  end(stream, cudaErrorStreamCaptureInvalidated);
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    begin(mode, stream);
    EXPECT_EQ(in_another_thread(query), cudaSuccess);
    end(stream, cudaSuccess);
  }
}

TEST_F(CaptureTest, InGlobalModeSparesThreadsThatAskedForIt) {
  const Stream stream = new_stream();
  const Event event = new_event();
  for (const auto asked : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    begin(cudaStreamCaptureModeGlobal, stream);
    EXPECT_EQ(in_another_thread([&] {
                cudaStreamCaptureMode mode = asked;
                EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
                EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
                return cudaEventQuery(event.get());
              }),
              cudaSuccess);
    end(stream, cudaSuccess);
  }
}

TEST_F(CaptureTest, FollowsEventsToOtherStreamsAndBack) {
  const Stream stream = new_stream();
  const Stream branch = new_stream();
  const Event fork = new_event();
  const Event join = new_event();
  const PinnedNumbers numbers(2);
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(cudaEventRecord(fork.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(branch.get(), fork.get(), 0), cudaSuccess);
  EXPECT_EQ(status(branch), cudaStreamCaptureStatusActive);
  EXPECT_EQ(count_up(numbers.data(), 1, 5, branch.get()), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(join.get(), branch.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(join.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(stream.get(), join.get(), 0), cudaSuccess);
  end(stream, cudaSuccess);
  EXPECT_EQ(status(branch), cudaStreamCaptureStatusNone);
}

TEST_F(CaptureTest, MustJoinItsBranches) {
  const Stream stream = new_stream();
  const Stream branch = new_stream();
  const Event fork = new_event();
  const PinnedNumbers numbers(2);
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(cudaEventRecord(fork.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(branch.get(), fork.get(), 0), cudaSuccess);
  EXPECT_EQ(count_up(numbers.data(), 1, 5, branch.get()), cudaSuccess);
  end(stream, cudaErrorStreamCaptureUnjoined);
}

TEST_F(CaptureTest, DependsOnNothingOutside) {
  const Stream stream = new_stream();
  const Stream other = new_stream();
  const Event event = new_event();
  EXPECT_EQ(cudaEventRecord(event.get(), other.get()), cudaSuccess);
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(cudaStreamWaitEvent(stream.get(), event.get(), 0), cudaErrorStreamCaptureIsolation);
  end(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, DoesNotMergeWithAnother) {
  const Stream first = new_stream();
  const Stream second = new_stream();
  const Event event = new_event();
  begin(cudaStreamCaptureModeThreadLocal, first);
  begin(cudaStreamCaptureModeThreadLocal, second);
  EXPECT_EQ(cudaEventRecord(event.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second.get(), event.get(), 0), cudaErrorStreamCaptureMerge);
  end(first, cudaErrorStreamCaptureInvalidated);
  end(second, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, EndsWhereItBegan) {
  const Stream stream = new_stream();
  const Stream branch = new_stream();
  const Event fork = new_event();
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(in_another_thread([&] {
              cudaGraph_t graph = nullptr;
              return cudaStreamEndCapture(stream.get(), &graph);
            }),
            cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(cudaEventRecord(fork.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(branch.get(), fork.get(), 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(branch.get(), &graph), cudaErrorStreamCaptureUnmatched);
  end(stream, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, CannotBeOfTheLegacyStream) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  const Stream blocking = new_stream(cudaStreamDefault);
  const PinnedNumbers numbers(1);
  begin(cudaStreamCaptureModeRelaxed, blocking);
  cudaStreamCaptureStatus value = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &value), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(status(blocking), cudaStreamCaptureStatusActive) << "only asked";
  EXPECT_EQ(cudaMemsetAsync(numbers.data(), 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
  end(blocking, cudaErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, TellsWhatTheNextNodeFollows) {
  const Stream stream = new_stream();
  const PinnedNumbers numbers(1);
  begin(cudaStreamCaptureModeThreadLocal, stream);
  EXPECT_EQ(count_up(numbers.data(), 1, 5, stream.get()), cudaSuccess);
  cudaStreamCaptureStatus value = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(cudaStreamGetCaptureInfo(stream.get(), &value, &id, &graph, &nodes, nullptr, &count),
            cudaSuccess);
  EXPECT_EQ(value, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(count, 1U);
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  EXPECT_EQ(cudaGraphNodeGetType(nodes[0], &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeKernel);
  end(stream, cudaSuccess);
}

TEST_F(CaptureTest, IsGivenUpWithItsStream) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  {
    const Stream stream = new_stream();
    begin(cudaStreamCaptureModeGlobal, stream);
  }
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace fake_cuda_tests
