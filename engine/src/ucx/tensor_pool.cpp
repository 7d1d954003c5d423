#include "sluice/ucx/tensor_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <new>
#include <utility>
#include <vector>

namespace sluice::ucx {
namespace {

constexpr std::size_t kSmallest = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kLists = std::size_t{4} * std::numeric_limits<std::size_t>::digits;

constexpr std::size_t alignment_of(std::size_t bytes) {
  return bytes >= kHugePage ? kHugePage : ReceiveMemory::kAlignment;
}

struct SizeClass {
  std::size_t list;
  std::size_t bytes;
};

SizeClass class_of(std::size_t bytes) {
  if (bytes <= kSmallest) return {0, kSmallest};
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
  const std::size_t step = std::size_t{1} << (power - 2);
  const std::size_t steps = (bytes + step - 1) / step;
  return {4 * power + (steps - 5), steps * step};
}

}  // namespace

/// Other processes' memory is read into huge pages about twice as fast.
void* HostMemory::allocate(std::size_t bytes) {
  void* const memory = ::operator new (bytes, std::align_val_t{alignment_of(bytes)});
  if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void HostMemory::release(void* memory, std::size_t bytes) noexcept {
  ::operator delete (memory, std::align_val_t{alignment_of(bytes)});
}

struct TensorPool::Block {
  DLManagedTensor tensor{};
  std::array<std::int64_t, TensorShape::kMaxRank> extents{};
  std::size_t list = 0;
  std::size_t bytes = 0;
  Block* next = nullptr;
  /// While the tensor is out, so that it may outlive the pool.
  std::shared_ptr<Shared> owner;
};

struct TensorPool::Shared {
  explicit Shared(std::shared_ptr<ReceiveMemory> from) : memory(std::move(from)) {}
  ~Shared() {
    for (const auto& block : blocks) {
      void* const data = block->tensor.dl_tensor.data;
      if (data != nullptr) memory->release(data, block->bytes);
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  static void give_back(DLManagedTensor* tensor) {
    auto* block = static_cast<Block*>(tensor->manager_ctx);
    const std::shared_ptr<Shared> shared = std::move(block->owner);
    block->next = shared->returned.load(std::memory_order_relaxed);
    while (!shared->returned.compare_exchange_weak(block->next, block, std::memory_order_release,
                                                   std::memory_order_relaxed)) {
    }
  }

  /// All at once, so that nobody can take a block that another one is about to.
  void collect() {
    Block* block = returned.exchange(nullptr, std::memory_order_acquire);
    while (block != nullptr) {
      Block* const next = block->next;
      block->next = std::exchange(free[block->list], block);
      block = next;
    }
  }

  Block* take(const SizeClass& size) {
    if (free[size.list] == nullptr) collect();
    if (free[size.list] == nullptr) return add(size);
    Block* const block = free[size.list];
    free[size.list] = block->next;
    return block;
  }

  Block* add(const SizeClass& size) {
    Block* const block = blocks.emplace_back(std::make_unique<Block>()).get();
    block->list = size.list;
    block->bytes = size.bytes;
    block->tensor.dl_tensor.data = memory->allocate(size.bytes);
    return block;
  }

  std::shared_ptr<ReceiveMemory> memory;
  std::vector<std::unique_ptr<Block>> blocks;
  std::array<Block*, kLists> free{};
  std::atomic<Block*> returned{nullptr};
};

TensorPool::TensorPool(std::shared_ptr<ReceiveMemory> memory)
    : shared_(std::make_shared<Shared>(std::move(memory))) {}

TensorPool::~TensorPool() = default;

host::TensorPtr TensorPool::take(const TensorShape& shape) {
  Block* const block = shared_->take(class_of(host::bytes_of(shape)));
  std::copy_n(shape.extent, shape.rank, block->extents.begin());
  DLTensor& tensor = block->tensor.dl_tensor;
  tensor.device = shared_->memory->device();
  tensor.ndim = shape.rank;
  tensor.dtype = {shape.dtype_code, shape.dtype_bits, 1};
  tensor.shape = block->extents.data();
  tensor.strides = nullptr;
  tensor.byte_offset = 0;
  block->tensor.manager_ctx = block;
  block->tensor.deleter = Shared::give_back;
  block->owner = shared_;
  return host::TensorPtr(&block->tensor);
}

std::size_t TensorPool::blocks() const noexcept { return shared_->blocks.size(); }

}  // namespace sluice::ucx
