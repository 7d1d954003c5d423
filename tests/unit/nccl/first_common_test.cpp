#include "../../../engine/src/nccl/first_common.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

/// The search on the device, where there is one its real kernel, and its arithmetic on the host.
namespace sluice::nccl {
namespace {

using namespace kernels;

struct Search {
  std::vector<std::uint8_t> bytes;
  Windows windows{};
};

/// Windows of any size, often empty, often without what is looked for, next to each other.
Search draw_search(std::mt19937& random) {
  const auto draw = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  constexpr std::uint32_t kSizes[] = {0, 1, 7, 255, 256, 257, 3000};
  Search search;
  for (Window& window : search.windows.of) {
    window.begin = static_cast<std::uint32_t>(search.bytes.size());
    window.count = kSizes[draw(6)];
    window.passes = draw(7);
    const std::uint32_t one_in = draw(1) == 0 ? 3 : 2000;
    for (std::uint32_t i = 0; i < window.count; ++i)
      search.bytes.push_back(static_cast<std::uint8_t>(draw(one_in - 1) == 0 ? 1U << draw(2) : 0));
  }
  return search;
}

Firsts plain_search(const Search& search) {
  Firsts firsts{};
  for (std::uint32_t each = 0; each < kWindows; ++each) {
    firsts.of[each] = kNoTask;
    const Window& window = search.windows.of[each];
    for (std::uint32_t i = window.count; i-- > 0;) {
      if ((search.bytes[window.begin + i] & window.passes) != 0) firsts.of[each] = i;
    }
  }
  return firsts;
}

std::vector<std::uint32_t> listed(const Firsts& firsts) { return {firsts.of, firsts.of + kWindows}; }

TEST(FirstCommon, AnyNumberOfSharesFindsWhatAPlainSearchDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Search search = draw_search(random);
    for (const std::uint32_t shares : {1U, 2U, 256U}) {
      Firsts firsts = firsts_of_share(search.bytes.data(), search.windows, shares - 1, shares);
      for (std::uint32_t share = 0; share + 1 < shares; ++share)
        firsts = Earlier{}(firsts, firsts_of_share(search.bytes.data(), search.windows, share, shares));
      ASSERT_EQ(listed(firsts), listed(plain_search(search))) << "round " << round;
    }
  }
}

class FirstCommonOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::use_device(0);
    bytes_ = cuda::DeviceMemory(kMostBytes, "a test");
    answer_ = cuda::MappedMemory(sizeof(Answer), "a test");
    new (answer_.host()) Answer{};
    stream_ = cuda::make_stream(cuda::Priority::Highest);
  }

  [[nodiscard]] Answer& answer() { return *reinterpret_cast<Answer*>(answer_.host()); }
  /// As an agreement does: the host sees the answer without a call of the runtime.
  [[nodiscard]] Firsts find(const Search& search, std::uint64_t attempt) {
    if (!search.bytes.empty()) {
      cuda::check(cudaMemcpyAsync(bytes_.data(), search.bytes.data(), search.bytes.size(),
                                  cudaMemcpyHostToDevice, stream_.get()),
                  "copying");
    }
    enqueue_first_common(reinterpret_cast<const std::uint8_t*>(bytes_.data()), search.windows, attempt,
                         reinterpret_cast<Answer*>(answer_.device()), stream_.get());
    const Time until = host::SteadyClock().now() + std::chrono::seconds(30);
    while (std::atomic_ref(answer().attempt).load(std::memory_order_acquire) != attempt) {
      if (host::SteadyClock().now() > until) throw Error("no answer");
      std::this_thread::yield();
    }
    return answer().firsts;
  }

  static constexpr std::size_t kMostBytes = 10'000;
  cuda::DeviceMemory bytes_;
  cuda::MappedMemory answer_;
  cuda::Stream stream_;
};

TEST_F(FirstCommonOnDevice, TheKernelFindsWhatAPlainSearchDoes) {
  std::mt19937 random(2);
  for (std::uint64_t attempt = 1; attempt <= 300; ++attempt) {
    const Search search = draw_search(random);
    ASSERT_EQ(listed(find(search, attempt)), listed(plain_search(search))) << "attempt " << attempt;
  }
}

TEST_F(FirstCommonOnDevice, TheLastByteOfAWindowIsLookedAtAndNoneBehindIt) {
  Search search;
  search.bytes = std::vector<std::uint8_t>(1000);
  search.windows.of[0] = {0, 999, 1};
  search.windows.of[1] = {999, 1, 1};
  search.bytes[998] = 1;
  EXPECT_EQ(listed(find(search, 1)), (std::vector<std::uint32_t>{998, kNoTask, kNoTask}));
  search.bytes[998] = 0;
  search.bytes[999] = 1;
  EXPECT_EQ(listed(find(search, 2)), (std::vector<std::uint32_t>{kNoTask, 0, kNoTask}));
}

TEST_F(FirstCommonOnDevice, ALaunchThatFailsIsAnError) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  fakecuda_fail("cudaLaunchKernelExC", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THROW(static_cast<void>(find(Search{}, 1)), cuda::CudaError);
}

}  // namespace
}  // namespace sluice::nccl
