#include "sluice/graphs/target_capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/capture_error.hpp"

namespace sluice::graphs {
namespace {

/// As many as one chunk may feed.
constexpr std::size_t kMostTargets = 127;

std::vector<CaptureTarget> checked(std::vector<CaptureTarget> targets) {
  if (targets.empty()) throw ConfigError("targets", "there is nothing to capture");
  if (targets.size() > kMostTargets)
    throw ConfigError("targets", fmt::format("{} are more than {}", targets.size(), kMostTargets));
  for (const CaptureTarget& target : targets)
    if (target.stage == nullptr) throw ConfigError("targets", target.name + " has no code");
  return targets;
}

bool any_input(const std::vector<CaptureTarget>& targets) {
  return std::ranges::any_of(targets, [](const CaptureTarget& target) { return !target.inputs.empty(); });
}

bool all_split(const std::vector<CaptureTarget>& targets) {
  return std::ranges::all_of(targets, [](const CaptureTarget& target) { return target.split; });
}

/// The targets on one stage; what feeds them, if anything does, on the one before, and what they feed on the
/// one behind.
Pipeline pipeline_around(const std::vector<CaptureTarget>& targets, std::uint32_t slots) {
  std::vector<ChunkPlacement> chunks;
  std::vector<Edge> edges;
  const bool fed = any_input(targets);
  const StageId stage = fed ? 1 : 0;
  if (fed) chunks.push_back({0, true});
  const auto first = static_cast<Chunk>(chunks.size());
  const auto behind = static_cast<Chunk>(first + targets.size());
  bool feeds = false;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto chunk = static_cast<Chunk>(first + i);
    chunks.push_back({stage, targets[i].split});
    if (!targets[i].inputs.empty()) edges.push_back({0, chunk});
    if (!targets[i].outputs.empty()) edges.push_back({chunk, behind});
    feeds = feeds || !targets[i].outputs.empty();
  }
  if (feeds) chunks.push_back({static_cast<StageId>(stage + 1), true});
  // One more than slots, so that a slot's graph is verified with another microbatch than it was captured
  // with.
  return {std::move(chunks), std::move(edges), slots + 1, all_split(targets)};
}

std::vector<cuda::EdgeLayout> layouts_of(const std::vector<CaptureTarget>& targets) {
  std::vector<cuda::EdgeLayout> layouts;
  for (const CaptureTarget& target : targets) {
    if (!target.inputs.empty()) layouts.push_back(target.inputs);
    if (!target.outputs.empty()) layouts.push_back(target.outputs);
  }
  return layouts;
}

std::vector<cuda::Stage*> code_of(const std::vector<CaptureTarget>& targets) {
  std::vector<cuda::Stage*> code;
  code.reserve(targets.size());
  for (const CaptureTarget& target : targets) code.push_back(target.stage.get());
  return code;
}

cuda::SlotMemory memory_of(const std::vector<CaptureTarget>& targets, const Pipeline& pipeline,
                           std::uint32_t slots, const cuda::PassLanes& lanes) {
  std::vector<cuda::ChunkMemory> chunks;
  for (const CaptureTarget& target : targets) {
    try {
      chunks.push_back(target.stage->memory());
    } catch (const std::exception& error) {
      throw Error(fmt::format("{} does not say what memory it needs: {}", target.name, error.what()));
    }
  }
  const std::vector<cuda::EdgeLayout> layouts = layouts_of(targets);
  const StageId stage = any_input(targets) ? 1 : 0;
  return {cuda::SlotMemoryPlan{pipeline, stage, layouts, chunks, lanes}, slots};
}

}  // namespace

TargetCapture::TargetCapture(std::vector<CaptureTarget> targets, std::uint32_t slots,
                             const GraphCache::Options& options)
    : targets_(checked(std::move(targets))),
      pipeline_(pipeline_around(targets_, slots)),
      first_(any_input(targets_) ? 1 : 0),
      memory_(memory_of(targets_, pipeline_, slots, options.lanes)),
      board_(static_cast<std::uint32_t>(targets_.size() * kPasses * slots)),
      cache_(pipeline_, pipeline_.stage_of(first_), code_of(targets_), memory_, options) {}

std::uint32_t TargetCapture::place_of(const Launch& launch) const {
  const std::uint32_t row =
      target_of(launch.task.chunk) * std::uint32_t{kPasses} + static_cast<std::uint32_t>(launch.task.pass);
  return row * memory_.slots() + launch.slot;
}

void TargetCapture::run(const std::function<void(std::uint32_t, std::uint32_t)>& progress) {
  try {
    cache_.capture_all(
        board_, [this](const Launch& launch) { return place_of(launch); }, progress);
  } catch (const CaptureError& error) {
    CaptureKey key = error.key();
    key.chunk = target_of(key.chunk);
    throw CaptureError(error.rank(), key, error.step(), error.code(),
                       targets_[key.chunk].name + ": " + error.cause());
  }
}

Manifest TargetCapture::manifest(const std::string& device) const {
  Manifest manifest = cache_.manifest(device);
  for (CapturedTask& task : manifest.tasks) task.key.chunk = target_of(task.key.chunk);
  return manifest;
}

std::string TargetCapture::dot_name(std::size_t index) const {
  const CaptureKey& key = cache_.captured().at(index).key;
  return fmt::format("chunk{}_{}{}_slot{}.dot", target_of(key.chunk), letter(key.pass),
                     key.whole ? "_whole" : "", key.slot);
}

}  // namespace sluice::graphs
