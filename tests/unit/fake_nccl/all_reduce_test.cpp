#include <algorithm>
#include <cstdint>
#include <cstring>

#include "nccl_test.hpp"

namespace fake_nccl_tests {
namespace {

template <typename T>
struct TypeOf;
template <>
struct TypeOf<std::uint8_t> {
  static constexpr ncclDataType_t kValue = ncclUint8;
};
template <>
struct TypeOf<std::int8_t> {
  static constexpr ncclDataType_t kValue = ncclInt8;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr ncclDataType_t kValue = ncclInt32;
};
template <>
struct TypeOf<std::uint64_t> {
  static constexpr ncclDataType_t kValue = ncclUint64;
};
template <>
struct TypeOf<float> {
  static constexpr ncclDataType_t kValue = ncclFloat32;
};
template <>
struct TypeOf<double> {
  static constexpr ncclDataType_t kValue = ncclFloat64;
};

/// Device memory whose contents go in and out on a rank's stream.
template <typename T>
class Values {
 public:
  Values(const Rank& rank, std::vector<T> values) : rank_(rank), values_(std::move(values)) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(data_, values_.data(), bytes(), cudaMemcpyHostToDevice, rank.stream()),
              cudaSuccess);
  }
  ~Values() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::vector<T> read() {
    EXPECT_EQ(cudaMemcpyAsync(values_.data(), data_, bytes(), cudaMemcpyDeviceToHost, rank_.stream()),
              cudaSuccess);
    EXPECT_EQ(rank_.synchronize(), cudaSuccess);
    return values_;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return values_.size() * sizeof(T); }

  const Rank& rank_;
  std::vector<T> values_;
  T* data_ = nullptr;
};

template <typename T>
ncclResult_t all_reduce(const Rank& rank, const T* from, T* to, std::size_t count, ncclRedOp_t operation) {
  return rank.settled(
      nccl().all_reduce(from, to, count, TypeOf<T>::kValue, operation, rank.get(), rank.stream()));
}

template <typename T>
class AllReduceTypesTest : public NcclTest {};

using Types = testing::Types<std::uint8_t, std::int8_t, std::int32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(AllReduceTypesTest, Types);

TYPED_TEST(AllReduceTypesTest, MinMaxAndSum) {
  using T = TypeParam;
  this->on_ranks(2, [](const Rank& rank) {
    const bool first = rank.number() == 0;
    const std::vector<T> mine = first ? std::vector<T>{1, 7, 5} : std::vector<T>{4, 2, 5};
    const Values<T> from(rank, mine);
    Values<T> to(rank, std::vector<T>(3));
    ASSERT_EQ(all_reduce(rank, from.data(), to.data(), 3, ncclMin), ncclSuccess);
    EXPECT_EQ(to.read(), (std::vector<T>{1, 2, 5}));
    ASSERT_EQ(all_reduce(rank, from.data(), to.data(), 3, ncclMax), ncclSuccess);
    EXPECT_EQ(to.read(), (std::vector<T>{4, 7, 5}));
    ASSERT_EQ(all_reduce(rank, from.data(), to.data(), 3, ncclSum), ncclSuccess);
    EXPECT_EQ(to.read(), (std::vector<T>{5, 9, 10}));
  });
}

using AllReduceTest = NcclTest;
using FakeAllReduceTest = FakeNcclTest;

/// Numbers whose sum depends on the order.
std::vector<float> rough(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i % 97) * 0.1F + static_cast<float>(rank) * 1e-3F;
  }
  return values;
}

TEST_F(FakeAllReduceTest, AddsInRankOrderAlsoInManyPiecesAndInPlace) {
  constexpr std::size_t kMany = 50000;
  on_ranks(3, [](const Rank& rank) {
    Values<float> values(rank, rough(rank.number(), kMany));
    ASSERT_EQ(all_reduce(rank, values.data(), values.data(), kMany, ncclSum), ncclSuccess);
    std::vector<float> expected = rough(0, kMany);
    for (const int other : {1, 2}) {
      const std::vector<float> more = rough(other, kMany);
      for (std::size_t i = 0; i < kMany; ++i) expected[i] += more[i];
    }
    EXPECT_EQ(values.read(), expected);
  });
}

TEST_F(AllReduceTest, FollowsWhatItsStreamDid) {
  on_ranks(2, [](const Rank& rank) {
    Values<std::int32_t> values(rank, {0, 0});
    Gate gate(rank.stream());
    EXPECT_EQ(fake_cuda_tests::count_up(values.data(), 2, 10 * rank.number(), rank.stream()), cudaSuccess);
    ASSERT_EQ(all_reduce(rank, values.data(), values.data(), 2, ncclSum), ncclSuccess);
    EXPECT_EQ(fake_cuda_tests::scale(values.data(), 2, 3, rank.stream()), cudaSuccess);
    gate.open();
    EXPECT_EQ(values.read(), (std::vector<std::int32_t>{30, 36}));
  });
}

TEST_F(AllReduceTest, OneThreadLaunchesForAllRanksInAGroup) {
  const ncclUniqueId id = new_id();
  std::vector<ncclComm_t> communicators(2);
  EXPECT_EQ(nccl().group_start(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudaSetDevice(i % devices_), cudaSuccess);
    EXPECT_EQ(nccl().comm_init_rank(&communicators[static_cast<std::size_t>(i)], 2, id, i), ncclSuccess);
  }
  ASSERT_EQ(nccl().group_end(), ncclSuccess);
  {
    const PinnedNumbers numbers(2);
    std::vector<Stream> streams;
    EXPECT_EQ(nccl().group_start(), ncclSuccess);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cudaSetDevice(i % devices_), cudaSuccess);
      streams.push_back(new_stream());
      numbers[i] = i + 1;
      EXPECT_EQ(nccl().all_reduce(numbers.data() + i, numbers.data() + i, 1, ncclInt32, ncclSum,
                                  communicators[static_cast<std::size_t>(i)], streams.back().get()),
                ncclSuccess);
    }
    EXPECT_EQ(nccl().group_end(), ncclSuccess);
    for (const Stream& stream : streams) EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    EXPECT_EQ(numbers[0], 3);
    EXPECT_EQ(numbers[1], 3);
  }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  for (ncclComm_t communicator : communicators) EXPECT_EQ(nccl().comm_destroy(communicator), ncclSuccess);
}

TEST_F(AllReduceTest, IsCapturedAndReplayed) {
  on_ranks(2, [](const Rank& rank) {
    Values<std::int32_t> values(rank, {1});
    // The first one connects the ranks, which cannot be captured.
    ASSERT_EQ(all_reduce(rank, values.data(), values.data(), 1, ncclSum), ncclSuccess);
    ASSERT_EQ(rank.synchronize(), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(all_reduce(rank, values.data(), values.data(), 1, ncclSum), ncclSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(rank.stream(), &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    const GraphExec owner(exec);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, rank.stream()), cudaSuccess);
    EXPECT_EQ(values.read(), std::vector<std::int32_t>{16});
  });
}

TEST_F(AllReduceTest, AbortEndsWhatWaitsForAPeer) {
  on_ranks(2, [this](Rank& rank) {
    Values<std::int32_t> values(rank, {1});
    if (rank.number() == 0) {
      ASSERT_EQ(all_reduce(rank, values.data(), values.data(), 1, ncclSum), ncclSuccess);
      const Event event = new_event();
      EXPECT_EQ(cudaEventRecord(event.get(), rank.stream()), cudaSuccess);
      EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
    }
    meet();
    rank.abort();
    EXPECT_EQ(rank.synchronize(), cudaSuccess);
  });
}

TEST_F(FakeAllReduceTest, RanksThatDisagreeAreReported) {
  on_ranks(2, [this](Rank& rank) {
    const Values<std::int32_t> values(rank, {1, 2});
    const std::size_t count = rank.number() == 0 ? 1 : 2;
    {
      Gate gate(rank.stream());
      ASSERT_EQ(all_reduce(rank, values.data(), values.data(), count, ncclSum), ncclSuccess);
    }
    EXPECT_EQ(rank.synchronize(), cudaSuccess) << "does not hang";
    EXPECT_EQ(next_error(rank.get()), ncclInvalidUsage);
    meet();
    rank.abort();
  });
  EXPECT_EQ(fakecuda_take_reports(), 1U);
}

TEST_F(FakeAllReduceTest, DifferentOrdersOfTwoCommunicatorsAreReported) {
  fakecuda_nccl_deadlock_ms(200);
  const std::array<ncclUniqueId, 2> ids = {new_id(), new_id()};
  on_threads(2, [&](int i) {
    Rank first(ids[0], 2, i, true);
    Rank second(ids[1], 2, i, true);
    const Values<std::int32_t> values(first, {1, 2});
    std::array<const Rank*, 2> order = {&first, &second};
    if (i == 1) std::swap(order[0], order[1]);
    for (const Rank* rank : order) {
      EXPECT_EQ(
          nccl().all_reduce(values.data(), values.data(), 1, ncclInt32, ncclSum, rank->get(), first.stream()),
          ncclSuccess);
    }
    EXPECT_EQ(first.synchronize(), cudaSuccess) << "does not hang";
    meet();
    first.abort();
    second.abort();
  });
  EXPECT_GE(fakecuda_take_reports(), 1U);
  fakecuda_nccl_deadlock_ms(10000);
}

TEST_F(FakeAllReduceTest, MemoryThatCannotBeUsedIsReported) {
  const Rank rank(new_id(), 1, 0);
  const Numbers numbers(2);
  int pageable = 1;
  EXPECT_EQ(all_reduce(rank, &pageable, numbers.data(), 1, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  EXPECT_EQ(all_reduce(rank, numbers.data(), numbers.data() + 1, 2, ncclSum), ncclInvalidArgument);
  EXPECT_EQ(fakecuda_take_reports(), 1U);
  EXPECT_EQ(
      nccl().all_reduce(numbers.data(), numbers.data(), 1, ncclNumTypes, ncclSum, rank.get(), rank.stream()),
      ncclInvalidArgument);
}

TEST_F(FakeAllReduceTest, DelaysChangeNoResult) {
  fakecuda_delay_us(300);
  on_ranks(3, [](const Rank& rank) {
    Values<std::int32_t> values(rank, {1});
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(all_reduce(rank, values.data(), values.data(), 1, ncclSum), ncclSuccess);
    }
    EXPECT_EQ(values.read(), std::vector<std::int32_t>{59049});
  });
  fakecuda_delay_us(0);
}

}  // namespace
}  // namespace fake_nccl_tests
