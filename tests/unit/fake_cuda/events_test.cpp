#include "device_test.hpp"

namespace fake_cuda_tests {
namespace {

using EventsTest = DeviceTest;

TEST_F(EventsTest, AreReachedWhenWhatCameBeforeHasRun) {
  const Stream stream = new_stream();
  const Event event = new_event();
  EXPECT_EQ(cudaEventQuery(event.get()), cudaSuccess) << "never recorded";
  Gate gate(stream.get());
  EXPECT_EQ(cudaEventRecord(event.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaSuccess);
}

TEST_F(EventsTest, AWaitIsForTheRecordingThatWasTheLatest) {
  const Stream first = new_stream();
  const Stream held = new_stream();
  const Stream waiting = new_stream();
  const Event event = new_event();
  const Gate gate(held.get());
  EXPECT_EQ(cudaEventRecord(event.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(waiting.get(), event.get(), 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event.get(), held.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(waiting.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
}

TEST_F(EventsTest, MayBeDestroyedWhileTheyAreWaitedFor) {
  const Stream first = new_stream();
  const Stream second = new_stream();
  Gate gate(first.get());
  {
    const Event event = new_event();
    EXPECT_EQ(cudaEventRecord(event.get(), first.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second.get(), event.get(), 0), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamQuery(second.get()), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
}

TEST_F(EventsTest, TellTheTimeBetweenThem) {
  const Stream stream = new_stream();
  const Event start = new_event(cudaEventDefault);
  const Event end = new_event(cudaEventDefault);
  EXPECT_EQ(cudaEventRecord(start.get(), stream.get()), cudaSuccess);
  {
    Gate gate(stream.get());
    EXPECT_EQ(cudaEventRecord(end.get(), stream.get()), cudaSuccess);
    float milliseconds = -1;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaErrorNotReady);
  }
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaSuccess);
  EXPECT_GT(milliseconds, 0.0F);
}

TEST_F(EventsTest, HaveNoTimesIfMadeWithout) {
  const Stream stream = new_stream();
  const Event start = new_event();
  const Event end = new_event();
  EXPECT_EQ(cudaEventRecord(start.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start.get(), end.get()), cudaErrorInvalidResourceHandle);
}

TEST_F(EventsTest, SharedOnesMustBeWithoutTimes) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
  const Event shared = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  const Stream stream = new_stream();
  EXPECT_EQ(cudaEventRecord(shared.get(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(shared.get()), cudaSuccess);
}

TEST_F(EventsTest, AreUnknownOnceDestroyed) {
  if (!fake()) GTEST_SKIP() << "undefined by NVIDIA's documentation";
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace fake_cuda_tests
