#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/graphs/captured_task.hpp"

namespace sluice::graphs {

inline constexpr std::string_view kManifestFormat = "sluice-manifest";
inline constexpr std::uint64_t kManifestVersion = 1;

/// What was captured for a stage, and the memory it takes.
struct Manifest {
  std::uint32_t rank = 0;
  std::string device;  ///< its name
  std::uint32_t slots = 0;
  cuda::SlotMemoryBytes memory;
  /// Of the saved bytes of a slot, what each chunk keeps from forward to weight gradient, by chunk,
  /// ascending.
  std::vector<std::uint64_t> saved_bytes;
  /// By chunk, as `saved_bytes`: what it keeps lies, at least in part, outside the slot (see
  /// cuda::Stage::saves_outside_slot), so that neither `saved_bytes` nor `memory` counts it. Empty if none
  /// does.
  std::vector<bool> saves_outside_slot = {};
  std::vector<CapturedTask> tasks;
};

/// The manifest as one JSON document:
/// `{"format", "version", "rank", "device", "slots", "memory": {"slot_bytes", "temporary_bytes",
/// "total_bytes"}, "saved_bytes": [number...], "saves_outside_slot": [boolean...], "tasks": [{"chunk",
/// "pass": "F" | "B" | "W", "whole", "slot", "lane", "bucket", "shapes": [{"type": "float32", "extents":
/// [number...]}], "nodes": {"kernels", "copies", "fills", "host_functions", "allocations", "others"},
/// "graph_bytes", "capture_ns", "instantiate_ns", "verification": null | {"max_abs_error", "max_rel_error",
/// "bytes_different", "deterministic"}}]}`.
[[nodiscard]] std::string write_manifest(const Manifest& manifest);

/// Reads what `write_manifest` wrote. Takes any bytes; memory is in proportion to their number. Without
/// `saves_outside_slot`, as files of earlier versions are, no chunk saves anything there.
/// @throws ConfigError naming the entry, as in `tasks[3].nodes.kernels`, that is missing, unknown, of a wrong
///         type or out of range, or a task that is there twice; or `manifest` and the position for what is no
///         JSON
[[nodiscard]] Manifest read_manifest(std::string_view bytes);

/// `float32[8, 128]`, as DLPack names types.
[[nodiscard]] std::string to_string(const TensorShape& shape);

}  // namespace sluice::graphs
