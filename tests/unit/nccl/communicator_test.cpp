#include "sluice/nccl/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../../fake_cuda/nccl_controls.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/handles.hpp"

namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 4096;

class CommunicatorTest : public ::testing::Test {
 protected:
  CommunicatorTest() { cuda::use_device(0); }
  ~CommunicatorTest() override {
    if (fakecuda_recover != nullptr) fakecuda_recover();
  }

  /// Each rank of a communicator, on a thread of its own.
  static void on_each(std::uint32_t ranks, const std::function<void(Communicator&)>& work,
                      Duration patience = 20s) {
    const ncclUniqueId id = make_unique_id();
    test::on_each_rank(ranks, [&](process::Bootstrap& bootstrap) {
      cuda::use_device(0);
      Communicator communicator(id, {ranks, bootstrap.rank(), name(bootstrap.rank())}, patience);
      work(communicator);
    });
  }
  static std::string name(std::uint32_t rank) {
    return "edge 2 (chunk 2 to 3), rank " + std::to_string(rank);
  }
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// What looking at a communicator throws sooner or later.
std::string error_of_looking(Communicator& communicator) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < until) {
    try {
      communicator.check_health();
    } catch (const NcclError& error) {
      return error.what();
    }
    std::this_thread::sleep_for(1ms);
  }
  return "nothing was thrown";
}

TEST_F(CommunicatorTest, AllRanksJoinAndLeave) {
  on_each(3, [](Communicator& communicator) {
    EXPECT_NE(communicator.get(), nullptr);
    EXPECT_EQ(communicator.place().ranks, 3U);
    EXPECT_TRUE(communicator.ready("looking"));
    EXPECT_NO_THROW(communicator.check_health());
  });
}

TEST_F(CommunicatorTest, ARankThatDoesNotComeIsNotWaitedForLongerThanThePatience) {
  EXPECT_THAT(error_of([] {
                const Communicator alone(make_unique_id(), {2, 1, name(1)}, 20ms);
              }),
              AllOf(HasSubstr(name(1)), HasSubstr("joining"), HasSubstr("within 0.02 s")));
}

TEST_F(CommunicatorTest, AnAbortIsAnErrorForThePeers) {
  std::barrier all_here(2);
  std::atomic<bool> aborted{false};
  on_each(2, [&](Communicator& communicator) {
    all_here.arrive_and_wait();
    if (communicator.place().rank == 0) {
      communicator.abort();
      aborted = true;
      EXPECT_EQ(communicator.get(), nullptr);
      EXPECT_THAT(error_of([&] { communicator.check_health(); }), HasSubstr("aborted"));
      communicator.abort();
      return;
    }
    while (!aborted) std::this_thread::yield();
    EXPECT_THAT(error_of_looking(communicator), AllOf(HasSubstr(name(1)), HasSubstr("ncclRemoteError")));
  });
}

TEST_F(CommunicatorTest, AnExceptionThatEndsItIsAnErrorForThePeersAtOnce) {
  const ncclUniqueId id = make_unique_id();
  std::barrier all_here(2);
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const std::uint32_t rank = bootstrap.rank();
    if (rank == 0) {
      EXPECT_THAT(error_of([&] {
                    const Communicator communicator(id, {2, 0, name(0)}, 60s);
                    all_here.arrive_and_wait();
                    throw Error("something else");
                  }),
                  "something else");
      return;
    }
    Communicator communicator(id, {2, 1, name(1)}, 60s);
    all_here.arrive_and_wait();
    EXPECT_THAT(error_of_looking(communicator), HasSubstr("ncclRemoteError"));
  });
}

TEST_F(CommunicatorTest, TheEndDoesNotWaitForAPeerForEver) {
  const ncclUniqueId id = make_unique_id();
  std::vector<std::unique_ptr<Communicator>> ranks(2);
  test::on_each_rank(2, [&](process::Bootstrap& bootstrap) {
    const std::uint32_t rank = bootstrap.rank();
    cuda::use_device(0);
    ranks[rank] = std::make_unique<Communicator>(id, Communicator::Place{2, rank, name(rank)}, 20s);
  });
  for (const auto& rank : ranks) rank->set_patience(20ms);
  for (auto& rank : ranks) rank.reset();
}

TEST_F(CommunicatorTest, ARefusedCallNamesThePlaceAndWhatTheLibrarySays) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  on_each(1, [](Communicator& communicator) {
    const std::string error =
        error_of([&] { communicator.complete(ncclInvalidUsage, "putting into a window"); });
    EXPECT_THAT(error,
                AllOf(HasSubstr(name(0)), HasSubstr("putting into a window"), HasSubstr("ncclInvalidUsage")));
  });
  fakecuda_nccl_fail("ncclCommInitRankConfig", 1, ncclSystemError);
  EXPECT_THAT(error_of([] {
                const Communicator refused(make_unique_id(), {1, 0, name(0)}, 1s);
              }),
              AllOf(HasSubstr(name(0)), HasSubstr("joining"), HasSubstr("ncclSystemError")));
  fakecuda_nccl_fail("ncclGetUniqueId", 1, ncclSystemError);
  EXPECT_THAT(error_of([] { static_cast<void>(make_unique_id()); }),
              AllOf(HasSubstr("making an id"), HasSubstr("ncclSystemError")));
}

TEST_F(CommunicatorTest, AnErrorThatTheLibraryFindsLaterIsTold) {
  if (fakecuda_nccl_break == nullptr) GTEST_SKIP() << "needs the fake library";
  on_each(1, [](Communicator& communicator) {
    fakecuda_nccl_break(communicator.get(), ncclSystemError);
    EXPECT_THAT(error_of_looking(communicator), AllOf(HasSubstr(name(0)), HasSubstr("ncclSystemError")));
  });
}

TEST_F(CommunicatorTest, APutIntoAWindowIsThereWhenItsSignalIs) {
  std::barrier all_filled(2);
  on_each(2, [&](Communicator& communicator) {
    const Library& library = Library::get();
    const WindowMemory memory(kBytes, "a test");
    const Window window(communicator, memory.data(), memory.size());
    const cuda::Stream stream = cuda::make_stream();
    const bool puts = communicator.place().rank == 0;
    cuda::check(cudaMemsetAsync(memory.data(), puts ? 7 : 0, kBytes, stream.get()), "filling");
    cuda::check(cudaStreamSynchronize(stream.get()), "waiting");
    all_filled.arrive_and_wait();
    if (puts) {
      communicator.complete(library.put_signal(memory.data(), 100, ncclInt8, 1, window.get(), 1000, 0, 0, 0,
                                               communicator.get(), stream.get()),
                            "putting");
      cuda::check(cudaStreamSynchronize(stream.get()), "waiting");
      return;
    }
    ncclWaitSignalDesc_t wait{1, 0, 0, 0};
    communicator.complete(library.wait_signal(1, &wait, communicator.get(), stream.get()), "waiting");
    std::vector<char> bytes(kBytes);
    cuda::check(cudaMemcpyAsync(bytes.data(), memory.data(), kBytes, cudaMemcpyDeviceToHost, stream.get()),
                "reading");
    cuda::check(cudaStreamSynchronize(stream.get()), "waiting");
    EXPECT_EQ(bytes[999], 0);
    EXPECT_EQ(bytes[1000], 7);
    EXPECT_EQ(bytes[1099], 7);
    EXPECT_EQ(bytes[1100], 0);
  });
}

TEST_F(CommunicatorTest, AbortEndsWhatIsEnqueued) {
  std::barrier all_here(2);
  on_each(2, [&](Communicator& communicator) {
    all_here.arrive_and_wait();
    if (communicator.place().rank == 0) return communicator.abort();
    const cuda::Stream stream = cuda::make_stream();
    ncclWaitSignalDesc_t wait{1, 0, 0, 0};
    try {
      communicator.complete(Library::get().wait_signal(1, &wait, communicator.get(), stream.get()),
                            "waiting");
    } catch (const NcclError&) {
      // The peer's end was seen before.
    }
    communicator.abort();
    cuda::check(cudaStreamSynchronize(stream.get()), "waiting");
  });
}

TEST_F(CommunicatorTest, WindowsOfDifferentSizesAreRefused) {
  if (fakecuda_take_reports == nullptr) GTEST_SKIP() << "later libraries take them";
  std::barrier all_tried(2);
  on_each(2, [&](Communicator& communicator) {
    const std::size_t bytes = kBytes * (1 + communicator.place().rank);
    const WindowMemory memory(bytes, "a test");
    const std::string error =
        error_of([&] { const Window window(communicator, memory.data(), memory.size()); });
    all_tried.arrive_and_wait();
    EXPECT_THAT(error, AllOf(HasSubstr(name(communicator.place().rank)), HasSubstr("registering a window"),
                             HasSubstr("ncclInvalidArgument")));
    communicator.abort();
  });
  EXPECT_GT(fakecuda_take_reports(), 0U);
}

TEST_F(CommunicatorTest, MemoryThatIsNotNcclsIsNoWindow) {
  on_each(1, [](Communicator& communicator) {
    const cuda::DeviceMemory memory(kBytes, "a test");
    EXPECT_THAT(error_of([&] { const Window window(communicator, memory.data(), memory.size()); }),
                AllOf(HasSubstr(name(0)), HasSubstr("registering a window")));
  });
}

TEST(WindowMemoryTest, NamesWhatItWasForWhenThereIsNone) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake library";
  cuda::use_device(0);
  fakecuda_nccl_fail("ncclMemAlloc", 1, ncclUnhandledCudaError);
  EXPECT_THAT(error_of([] { const WindowMemory memory(kBytes, "a ring"); }),
              AllOf(HasSubstr("4096 bytes"), HasSubstr("a ring"), HasSubstr("ncclUnhandledCudaError")));
  EXPECT_EQ(WindowMemory(0, "nothing").data(), nullptr);
}

TEST(WindowMemoryTest, CanBeHandedOver) {
  if (fakecuda_live_allocations == nullptr) GTEST_SKIP() << "needs the fake library";
  cuda::use_device(0);
  const std::size_t before = fakecuda_live_allocations();
  {
    const cuda::DeviceMemory memory = WindowMemory(kBytes, "a ring").take();
    EXPECT_NE(memory.data(), nullptr);
    EXPECT_EQ(memory.size(), kBytes);
    EXPECT_EQ(fakecuda_live_allocations(), before + 1);
  }
  EXPECT_EQ(fakecuda_live_allocations(), before);
}

}  // namespace
}  // namespace sluice::nccl
