#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

#include "capture.hpp"
#include "graph_memory.hpp"
#include "rehearsal.hpp"
#include "shapes.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/eager_code.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/capture_error.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::graphs {
namespace {

/// Does a step of the making of a graph; what it throws becomes a CaptureError that says which.
template <typename Step>
auto in_step(std::uint32_t rank, const CaptureKey& key, const char* name, const Step& step) {
  try {
    return step();
  } catch (const cuda::CudaError& error) {
    static_cast<void>(cudaGetLastError());
    throw CaptureError(rank, key, name, error.code(), error.what());
  } catch (const std::exception& error) {
    static_cast<void>(cudaGetLastError());
    throw CaptureError(rank, key, name, cudaSuccess, error.what());
  }
}

}  // namespace

std::vector<CaptureKey> GraphCache::tasks() const {
  std::vector<CaptureKey> keys;
  for (std::uint32_t position = 0; position < tasks_.chunks(); ++position) {
    const Chunk chunk = tasks_.chunk_at(position);
    for (Slot slot = 0; slot < memory_.slots(); ++slot) {
      keys.push_back({chunk, Pass::Forward, false, slot});
      if (!pipeline_.splittable(chunk) || !pipeline_.split_backward())
        keys.push_back({chunk, Pass::Backward, true, slot});
      if (!pipeline_.splittable(chunk)) continue;
      keys.push_back({chunk, Pass::Backward, false, slot});
      keys.push_back({chunk, Pass::WeightGrad, false, slot});
    }
  }
  return keys;
}

void GraphCache::capture_all(cuda::CompletionBoard& board, const PlaceOf& place_of,
                             const std::function<void(std::uint32_t, std::uint32_t)>& progress) {
  const std::vector<CaptureKey> keys = tasks();
  const auto all = static_cast<std::uint32_t>(keys.size());
  if (options_.most_graphs != 0 && options_.most_graphs < all)
    throw ConfigError("most_graphs", fmt::format("{} is less than the {} tasks of the slots and chunks",
                                                 options_.most_graphs, all));
  for (std::uint32_t done = 0; done < all; ++done) {
    const CaptureKey& key = keys[done];
    Launch launch;
    launch.task = {0, key.chunk, key.pass};
    launch.slot = key.slot;
    launch.lane = lane_of(key.pass);
    launch.whole = key.whole;
    capture_ahead(key, place_of(launch), board);
    if (progress) progress(done + 1, all);
  }
}

void GraphCache::capture_ahead(const CaptureKey& key, std::uint32_t place, cuda::CompletionBoard& board) {
  const std::uint32_t position = tasks_.position(key.chunk);
  const Lane lane = lane_of(key.pass);
  const auto step = [&](const char* name, const auto& work) {
    return in_step(options_.rank, key, name, work);
  };
  const cuda::TaskBuffers buffers =
      step("preparing", [&] { return cuda::task_buffers(memory_, position, key.slot, lane); });
  const RehearsedTask task{key,     lane,          *code_[position], buffers,
                           memory_, stream_.get(), options_.rank,    tasks_.microbatches()};
  std::optional<Rehearsal> rehearsal;
  step("preparing", [&] { rehearsal.emplace(task, options_.fill_inputs); });
  step("warming up", [&] {
    for (int run = 0; run < options_.warm_ups; ++run) rehearsal->warm_up();
    rehearsal->prepare();
  });
  const std::uint32_t index = capture(key, lane, place, board);
  if (index == kNone) {
    throw CaptureError(options_.rank, key, "capturing", cudaSuccess,
                       "as many graphs as may be held are all on the device");
  }
  if (options_.verify) {
    try {
      step("verifying", [&] { verify(index, *rehearsal, board); });
    } catch (...) {
      forget(index);
      throw;
    }
  } else if (code_[position]->saves_outside_slot()) {
    // The other passes are warmed up with what it leaves.
    step("running", [&] {
      replay(held_[index], board);
      cuda::check(cudaStreamSynchronize(stream_.get()), "waiting for the graph");
    });
  }
}

void GraphCache::replay(const Held& held, cuda::CompletionBoard& board) const {
  cuda::check(cudaGraphLaunch(held.exec.get(), stream_.get()), "launching the graph");
  board.launched(held.place);
}

void GraphCache::verify(std::uint32_t index, const Rehearsal& rehearsal, cuda::CompletionBoard& board) {
  const Held& held = held_[index];
  CapturedTask& task = captured_[index];
  const GraphMemoryMeter meter(task.nodes.allocations > 0);
  task.verification = rehearsal.verify([&] { replay(held, board); }, options_.tolerance);
  if (!board.ended(held.place)) throw Error("its end does not show on the completion board");
  task.verified = true;
  task.graph_bytes = meter.highest();
}

std::uint32_t GraphCache::capture(const CaptureKey& key, Lane lane, std::uint32_t place,
                                  const cuda::CompletionBoard& board) {
  const host::SteadyClock clock;
  const cuda::TaskBuffers buffers = cuda::task_buffers(memory_, tasks_.position(key.chunk), key.slot, lane);
  CapturedTask task{key, lane, 0, selecting_shapes(key.pass, buffers.slot), {}, 0, {}, {}, false, {}};
  const Time began = clock.now();
  cuda::Graph graph = in_step(options_.rank, key, "capturing", [&] {
    return graphs::capture(stream_.get(), [&] {
      board.enqueue_start(place, stream_.get());
      cuda::enqueue_pass(*code_[tasks_.position(key.chunk)], key.pass, key.whole, buffers, stream_.get());
      board.enqueue_end(place, stream_.get());
    });
  });
  const Time recorded = clock.now();
  ++statistics_.captures;
  Held held{nullptr, nullptr, place, &board, 0, written_shapes(key.pass, buffers.slot)};
  return in_step(options_.rank, key, "instantiating", [&]() -> std::uint32_t {
    const std::uint32_t known = find(key, lane, task.shapes);
    cuda::GraphExec was;
    if (known != kNone) {
      if (!held_[known].board->ended(held_[known].place)) throw Error("its graph is on the device");
      was = std::move(held_[known].exec);
      held.last_launch = held_[known].last_launch;
      forget(known);
    } else if (!make_room()) {
      return kNone;
    }
    task.nodes = count_nodes(graph.get());
    const GraphMemoryMeter meter(task.nodes.allocations > 0);
    held.exec = instantiate(graph.get(), std::move(was));
    held.graph = std::move(graph);
    task.bucket = bucket_of(key, task.shapes);
    task.capture = recorded - began;
    task.instantiate = clock.now() - recorded;
    task.graph_bytes = meter.reserved();
    return add(std::move(task), std::move(held));
  });
}

cuda::GraphExec GraphCache::instantiate(cudaGraph_t graph, cuda::GraphExec was) {
  cudaGraphExecUpdateResultInfo unused{};
  if (was != nullptr && cudaGraphExecUpdate(was.get(), graph, &unused) == cudaSuccess) {
    ++statistics_.updates;
  } else {
    static_cast<void>(cudaGetLastError());
    was.reset();
    cudaGraphExec_t made = nullptr;
    cuda::check(cudaGraphInstantiate(&made, graph, 0), "instantiating the graph");
    was.reset(made);
    ++statistics_.instantiations;
  }
  cuda::check(cudaGraphUpload(was.get(), stream_.get()), "uploading the graph");
  return was;
}

}  // namespace sluice::graphs
