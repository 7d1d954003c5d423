#include "sluice/ucx/tensor_pool.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace sluice::ucx {
namespace {

TensorShape floats(std::vector<std::int64_t> extents) {
  TensorShape shape;
  shape.dtype_code = kDLFloat;
  shape.dtype_bits = 32;
  shape.rank = static_cast<std::uint8_t>(extents.size());
  std::copy(extents.begin(), extents.end(), shape.extent);
  return shape;
}

/// Counts what it gave and got back.
class CountingMemory final : public ReceiveMemory {
 public:
  [[nodiscard]] DLDevice device() const noexcept override { return {kDLCUDAHost, 3}; }
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    if (allocated == most) throw std::bad_alloc();
    ++allocated;
    return host_.allocate(bytes);
  }
  void release(void* memory, std::size_t bytes) noexcept override {
    ++released;
    host_.release(memory, bytes);
  }

  std::size_t most = 1000;
  std::size_t allocated = 0;
  std::size_t released = 0;

 private:
  HostMemory host_;
};

TEST(TensorPool, GivesContiguousTensorsOfTheAskedShape) {
  TensorPool pool(std::make_shared<HostMemory>());
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{}, {1}, {0}, {3, 0, 2}, {4, 64, 96}, {1, 1, 1, 1, 1, 1, 1, 5}}) {
    const host::TensorPtr tensor = pool.take(floats(extents));
    EXPECT_EQ(host::shape_of(*tensor), floats(extents));
    EXPECT_EQ(tensor->dl_tensor.strides, nullptr);
    EXPECT_EQ(tensor->dl_tensor.byte_offset, 0U);
    EXPECT_EQ(tensor->dl_tensor.dtype.lanes, 1);
    EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCPU);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->dl_tensor.data) % ReceiveMemory::kAlignment, 0U);
    // The sanitizer notices a block that is too small.
    std::memset(tensor->dl_tensor.data, 1, host::bytes_of(floats(extents)));
  }
}

TEST(TensorPool, EverySizeHasABlockOfItsOwnThatIsLargeEnough) {
  TensorPool pool(std::make_shared<HostMemory>());
  std::vector<host::TensorPtr> out;
  for (std::int64_t elements = 1; elements < 700; ++elements) {
    out.push_back(pool.take(floats({elements})));
    std::memset(out.back()->dl_tensor.data, static_cast<int>(elements),
                4 * static_cast<std::size_t>(elements));
  }
  for (std::int64_t elements = 1; elements < 700; ++elements) {
    const auto* bytes = static_cast<const std::uint8_t*>(out[elements - 1]->dl_tensor.data);
    EXPECT_EQ(bytes[0], static_cast<std::uint8_t>(elements));
    EXPECT_EQ(bytes[4 * elements - 1], static_cast<std::uint8_t>(elements));
  }
}

TEST(TensorPool, UsesBlocksAgain) {
  TensorPool pool(std::make_shared<HostMemory>());
  for (int turn = 0; turn < 100; ++turn) {
    const host::TensorPtr first = pool.take(floats({1000}));
    const host::TensorPtr second = pool.take(floats({1000}));
    const host::TensorPtr large = pool.take(floats({100000 + turn}));
    EXPECT_NE(first->dl_tensor.data, second->dl_tensor.data);
  }
  EXPECT_EQ(pool.blocks(), 3U);
}

TEST(TensorPool, TensorsMayBeDeletedOnOtherThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  TensorPool pool(std::make_shared<HostMemory>());
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      std::vector<host::TensorPtr> tensors;
      for (int k = 0; k < kEach; ++k) tensors.push_back(pool.take(floats({k})));
      threads.emplace_back([tensors = std::move(tensors)]() mutable { tensors.clear(); });
    }
    for (int k = 0; k < kEach; ++k) (void)pool.take(floats({k}));
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(pool.blocks(), std::size_t{kThreads} * kEach + kEach);
}

TEST(TensorPool, TensorsOutliveIt) {
  auto memory = std::make_shared<CountingMemory>();
  host::TensorPtr tensor;
  {
    TensorPool pool(memory);
    tensor = pool.take(floats({10}));
    (void)pool.take(floats({10}));
  }
  EXPECT_EQ(memory->released, 0U);
  std::memset(tensor->dl_tensor.data, 0, 40);
  std::thread([&tensor] { tensor.reset(); }).join();
  EXPECT_EQ(memory->allocated, 2U);
  EXPECT_EQ(memory->released, 2U);
}

TEST(TensorPool, TakesItsMemoryWhereItIsTold) {
  auto memory = std::make_shared<CountingMemory>();
  memory->most = 1;
  TensorPool pool(memory);
  const host::TensorPtr tensor = pool.take(floats({10}));
  EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCUDAHost);
  EXPECT_EQ(tensor->dl_tensor.device.device_id, 3);
  EXPECT_THROW((void)pool.take(floats({10})), std::bad_alloc);
}

}  // namespace
}  // namespace sluice::ucx
