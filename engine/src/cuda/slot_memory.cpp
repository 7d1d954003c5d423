#include "sluice/cuda/slot_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

/// What cudaMalloc itself aligns to, so that a piece is as good as an allocation.
constexpr std::size_t kAlignment = 256;
/// More than any device has, and far from overflow.
constexpr std::size_t kMostBytes = std::size_t{1} << 50;
constexpr std::size_t kMostSlots = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kBitsOfByte = 8;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// @param field, what to name in the error
std::size_t checked(std::size_t bytes, const char* field, const std::string& what) {
  if (bytes > kMostBytes) throw ConfigError(field, fmt::format("{} is larger than any device", what));
  return bytes;
}

std::size_t tensor_bytes(const TensorShape& shape, const std::string& what) {
  if (shape.rank > TensorShape::kMaxRank || shape.dtype_bits == 0)
    throw ConfigError("layouts", fmt::format("{} has no element type or more than {} dimensions", what,
                                             TensorShape::kMaxRank));
  std::size_t elements = 1;
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (shape.extent[i] < 0) throw ConfigError("layouts", fmt::format("{} has an extent below 0", what));
    const auto extent = static_cast<std::size_t>(shape.extent[i]);
    if (extent != 0 && elements > kMostBytes / extent) checked(kMostBytes + 1, "layouts", what);
    elements *= extent;
  }
  return checked((elements * shape.dtype_bits + kBitsOfByte - 1) / kBitsOfByte, "layouts", what);
}

std::size_t edge_bytes(const SlotMemoryPlan& plan, EdgeId edge) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < plan.layouts[edge].size(); ++i) {
    const std::string what = fmt::format("tensor {} of edge {}", i, edge);
    bytes = checked(bytes + aligned(tensor_bytes(plan.layouts[edge][i], what)), "layouts", what);
  }
  return bytes;
}

/// Of one chunk's slot: for each edge the activation and its gradient, and what is saved.
std::size_t chunk_bytes(const SlotMemoryPlan& plan, std::size_t position) {
  const Chunk chunk = plan.pipeline.chunks_of(plan.stage)[position];
  const std::string what = fmt::format("what chunk {} saves", chunk);
  std::size_t bytes = aligned(checked(plan.chunks[position].saved_bytes, "chunks", what));
  for (const EdgeId edge : plan.pipeline.in_edges(chunk)) bytes += 2 * edge_bytes(plan, edge);
  for (const EdgeId edge : plan.pipeline.out_edges(chunk)) bytes += 2 * edge_bytes(plan, edge);
  return bytes;
}

bool in_use(const PassLanes& lanes, std::size_t lane) {
  return std::find(lanes.begin(), lanes.end(), static_cast<Lane>(lane)) != lanes.end();
}

std::size_t lanes_in_use(const PassLanes& lanes) {
  std::size_t count = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) count += in_use(lanes, lane) ? 1 : 0;
  return count;
}

/// Hands out the pieces of a slot one after the other.
class Pieces {
 public:
  explicit Pieces(std::byte* from) : next_(from) {}

  std::byte* take(std::size_t bytes) {
    std::byte* const piece = next_;
    if (next_ != nullptr) next_ += aligned(bytes);
    return piece;
  }
  std::vector<std::vector<SlotTensor>> take(const SlotMemoryPlan& plan, std::span<const EdgeId> edges) {
    std::vector<std::vector<SlotTensor>> tensors;
    for (const EdgeId edge : edges) {
      tensors.emplace_back();
      for (const TensorShape& shape : plan.layouts[edge]) {
        const std::size_t bytes = tensor_bytes(shape, "a tensor");
        tensors.back().push_back({take(bytes), bytes, shape});
      }
    }
    return tensors;
  }

 private:
  std::byte* next_;
};

SlotBuffers place_buffers(const SlotMemoryPlan& plan, std::size_t position, std::byte* slot) {
  const Chunk chunk = plan.pipeline.chunks_of(plan.stage)[position];
  Pieces pieces(slot);
  SlotBuffers buffers;
  buffers.inputs = pieces.take(plan, plan.pipeline.in_edges(chunk));
  buffers.outputs = pieces.take(plan, plan.pipeline.out_edges(chunk));
  buffers.output_grads = pieces.take(plan, plan.pipeline.out_edges(chunk));
  buffers.input_grads = pieces.take(plan, plan.pipeline.in_edges(chunk));
  buffers.saved_bytes = plan.chunks[position].saved_bytes;
  buffers.saved = buffers.saved_bytes == 0 ? nullptr : pieces.take(buffers.saved_bytes);
  return buffers;
}

/// Which limit fits where so many slots do: a stage of several chunks has a slot more for each.
std::string limit_within(const SlotMemoryPlan& plan, std::size_t free) {
  const std::uint32_t slots = SlotMemory::slots_within(free, plan);
  const auto chunks = static_cast<std::uint32_t>(plan.pipeline.chunks_of(plan.stage).size());
  const std::uint32_t extra = chunks == 1 ? 0 : chunks;
  const std::uint32_t least = chunks;
  if (slots < extra + least) return "no limit fits: split the stage, or the microbatches, or free memory";
  return fmt::format("a limit of {} would fit", slots - extra);
}

DeviceMemory from_cuda(std::size_t bytes, const char* what) { return {bytes, what}; }

DeviceMemory allocate(const SlotMemoryPlan& plan, std::uint32_t slots, const MemorySource& source,
                      std::size_t bytes, std::size_t total, const char* what) {
  std::size_t free = 0;
  std::size_t all = 0;
  check(cudaMemGetInfo(&free, &all), "asking for the free memory");
  try {
    return source(bytes, what);
  } catch (const CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    throw CudaError(
        error.code(),
        fmt::format("{} slots of stage {} take {} bytes of device memory, of which {} are free; {}", slots,
                    plan.stage, total, free, limit_within(plan, free)));
  }
}

}  // namespace

SlotMemoryBytes SlotMemory::bytes_for(const SlotMemoryPlan& plan, std::uint32_t slots) {
  const std::size_t chunks = plan.pipeline.chunks_of(plan.stage).size();
  if (slots == 0) throw ConfigError("slots", "a stage has at least one");
  if (plan.layouts.size() != plan.pipeline.edges().size()) {
    throw ConfigError(
        "layouts", fmt::format("{} given for {} edges", plan.layouts.size(), plan.pipeline.edges().size()));
  }
  if (plan.chunks.size() != chunks) {
    throw ConfigError("chunks", fmt::format("{} given for the {} chunks of stage {}", plan.chunks.size(),
                                            chunks, plan.stage));
  }
  SlotMemoryBytes bytes;
  for (std::size_t position = 0; position < chunks; ++position) {
    const std::string what =
        fmt::format("the temporary memory of chunk {}", plan.pipeline.chunks_of(plan.stage)[position]);
    bytes.saved_per_slot = std::max(bytes.saved_per_slot, chunk_bytes(plan, position));
    bytes.temporary =
        std::max(bytes.temporary, aligned(checked(plan.chunks[position].temporary_bytes, "chunks", what)));
  }
  if (bytes.saved_per_slot > kMostBytes / slots)
    checked(kMostBytes + 1, "slots", fmt::format("what {} take", slots));
  bytes.total = bytes.saved_per_slot * slots + bytes.temporary * lanes_in_use(plan.lanes);
  return bytes;
}

SlotMemory::SlotMemory(const SlotMemoryPlan& plan, std::uint32_t slots)
    : slots_(slots), bytes_(bytes_for(plan, slots)) {
  const std::size_t needed = bytes_.saved_per_slot * slots;
  const std::size_t temporaries = bytes_.total - needed;
  block_ =
      allocate(plan, slots, plan.block_source ? plan.block_source : from_cuda, needed, bytes_.total, "slots");
  temporaries_ = allocate(plan, slots, from_cuda, temporaries, bytes_.total, "temporaries");
  bytes_.total = block_.size() + temporaries;
  Pieces pieces(temporaries_.data());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (in_use(plan.lanes, lane)) temporary_[lane] = pieces.take(bytes_.temporary);
  }
  for (std::size_t position = 0; position < plan.chunks.size(); ++position) {
    for (Slot slot = 0; slot < slots; ++slot) {
      std::byte* const begin = needed == 0 ? nullptr : block_.data() + slot * bytes_.saved_per_slot;
      buffers_.push_back(place_buffers(plan, position, begin));
    }
  }
}

std::byte* SlotMemory::temporary(Lane lane) const noexcept {
  return temporary_[static_cast<std::size_t>(lane)];
}

std::uint32_t SlotMemory::slots_within(std::size_t budget, const SlotMemoryPlan& plan) {
  const SlotMemoryBytes one = bytes_for(plan, 1);
  const std::size_t temporaries = one.total - one.saved_per_slot;
  if (budget < temporaries) return 0;
  if (one.saved_per_slot == 0) return static_cast<std::uint32_t>(kMostSlots);
  return static_cast<std::uint32_t>(std::min(kMostSlots, (budget - temporaries) / one.saved_per_slot));
}

}  // namespace sluice::cuda
