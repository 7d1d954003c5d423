#include "sluice/graphs/graph_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "dot.hpp"
#include "shapes.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/eager_code.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

/// What a chunk does in a slot, whole and split backwards apart.
constexpr std::uint32_t kKinds = kPasses + 1;

std::uint32_t kind_of(const CaptureKey& key) {
  return key.pass == Pass::Backward && key.whole ? static_cast<std::uint32_t>(kPasses)
                                                 : static_cast<std::uint32_t>(key.pass);
}

}  // namespace

GraphCache::GraphCache(const Pipeline& pipeline, StageId stage, std::vector<cuda::Stage*> code,
                       cuda::SlotMemory& memory, const Options& options)
    : tasks_(pipeline, stage),
      pipeline_(pipeline),
      code_(std::move(code)),
      memory_(memory),
      options_(options),
      stream_(cuda::make_stream()),
      table_(std::size_t{kKinds} * tasks_.chunks() * memory.slots()),
      buckets_(tasks_.chunks()) {
  if (code_.size() != tasks_.chunks()) {
    throw ConfigError(
        "code", fmt::format("{} given for the {} chunks of stage {}", code_.size(), tasks_.chunks(), stage));
  }
}

GraphCache::~GraphCache() = default;

void GraphCache::enqueue(const Launch& launch, std::uint32_t place, const cuda::CompletionBoard& board,
                         cudaStream_t stream) {
  const std::uint32_t position = tasks_.position(launch.task.chunk);
  const cuda::TaskBuffers buffers = cuda::task_buffers(memory_, position, launch.slot, launch.lane);
  cuda::Stage& code = *code_[position];
  code.prepare_task(
      {options_.rank, launch.iteration, launch.task.microbatch, launch.slot, launch.forward_only},
      launch.task.pass, buffers, stream);
  const CaptureKey key{launch.task.chunk, launch.task.pass, launch.whole, launch.slot};
  const cuda::Replay replay = code.replay(launch.task.pass, launch.whole, buffers);
  std::uint32_t index = replay == cuda::Replay::Held ? find(key, launch.lane, buffers.slot) : kNone;
  if (index == kNone && replay != cuda::Replay::ByCalls && options_.capture_unseen && make_room())
    index = capture(key, launch.lane, place, board);
  if (index != kNone && held_[index].place == place && held_[index].board == &board)
    return launch_graph(index, launch, buffers.slot, stream);
  ++statistics_.eager;
  board.enqueue_start(place, stream);
  cuda::enqueue_pass(code, launch.task.pass, launch.whole, buffers, stream);
  board.enqueue_end(place, stream);
}

void GraphCache::launch_graph(std::uint32_t index, const Launch& launch, cuda::SlotBuffers& slot,
                              cudaStream_t stream) {
  Held& held = held_[index];
  if (const cudaError_t code = cudaGraphLaunch(held.exec.get(), stream); code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw cuda::CudaError(code, fmt::format("rank {}, launching the graph of {} in slot {}", options_.rank,
                                            to_string(launch.task), launch.slot));
  }
  held.last_launch = ++launch_count_;
  ++statistics_.launches;
  set_written_shapes(held.written, launch.task.pass, slot);
}

std::vector<std::uint32_t>& GraphCache::graphs_of(const CaptureKey& key) {
  const std::uint32_t row = tasks_.position(key.chunk) * kKinds + kind_of(key);
  return table_[std::size_t{row} * memory_.slots() + key.slot];
}

std::uint32_t GraphCache::find(const CaptureKey& key, Lane lane, const cuda::SlotBuffers& slot) {
  for (const std::uint32_t index : graphs_of(key)) {
    const CapturedTask& task = captured_[index];
    if (task.lane == lane && selected(task.shapes, key.pass, slot)) return index;
  }
  return kNone;
}

std::uint32_t GraphCache::find(const CaptureKey& key, Lane lane, const std::vector<TensorShape>& shapes) {
  for (const std::uint32_t index : graphs_of(key)) {
    if (captured_[index].lane == lane && captured_[index].shapes == shapes) return index;
  }
  return kNone;
}

bool GraphCache::make_room() {
  if (options_.most_graphs == 0 || held_.size() < options_.most_graphs) return true;
  std::uint32_t oldest = kNone;
  for (std::uint32_t index = 0; index < held_.size(); ++index) {
    if (!held_[index].board->ended(held_[index].place)) continue;
    if (oldest == kNone || held_[index].last_launch < held_[oldest].last_launch) oldest = index;
  }
  if (oldest == kNone) return false;
  forget(oldest);
  ++statistics_.evictions;
  return true;
}

std::uint32_t GraphCache::add(CapturedTask task, Held held) {
  const auto index = static_cast<std::uint32_t>(captured_.size());
  graphs_of(task.key).push_back(index);
  captured_.push_back(std::move(task));
  held_.push_back(std::move(held));
  return index;
}

/// The last one takes its place.
void GraphCache::forget(std::uint32_t index) {
  const auto last = static_cast<std::uint32_t>(captured_.size() - 1);
  std::erase(graphs_of(captured_[index].key), index);
  if (index != last) {
    std::ranges::replace(graphs_of(captured_[last].key), last, index);
    captured_[index] = std::move(captured_[last]);
    held_[index] = std::move(held_[last]);
  }
  captured_.pop_back();
  held_.pop_back();
}

std::uint32_t GraphCache::bucket_of(const CaptureKey& key, const std::vector<TensorShape>& shapes) {
  auto& known = buckets_[tasks_.position(key.chunk)][key.pass == Pass::Forward ? 0 : 1];
  const auto found = std::ranges::find(known, shapes);
  const auto bucket = static_cast<std::uint32_t>(found - known.begin());
  if (found == known.end()) known.push_back(shapes);
  return bucket;
}

Manifest GraphCache::manifest(const std::string& device) const {
  Manifest manifest{options_.rank, device, memory_.slots(), memory_.bytes(), {}, {}, captured_};
  for (const cuda::Stage* const code : code_) {
    manifest.saved_bytes.push_back(code->memory().saved_bytes);
    manifest.saves_outside_slot.push_back(code->saves_outside_slot());
  }
  std::ranges::sort(manifest.tasks, {},
                    [](const CapturedTask& task) { return std::tuple(task.key, task.lane, task.bucket); });
  return manifest;
}

std::string GraphCache::dot(std::size_t index) const { return dot_of(held_.at(index).graph.get()); }

}  // namespace sluice::graphs
