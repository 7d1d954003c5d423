#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/row.hpp"

/// What is measured. Each subject runs in a process of its own that has not used CUDA.
namespace sluice::microbench {

struct Effort {
  /// Enough to see that everything works, not for figures.
  bool quick = false;
  std::uint64_t seed = 1;

  /// @return how often to measure
  [[nodiscard]] std::uint32_t times(std::uint32_t full, std::uint32_t quickly) const {
    return quick ? quickly : full;
  }
};

/// What launching a captured graph takes, by its number of nodes.
[[nodiscard]] std::vector<Row> measure_graph_launch(const Effort& effort);
/// What looking for a task's end takes, and how late it is seen, by flag and by event.
[[nodiscard]] std::vector<Row> measure_completion(const Effort& effort);
/// How long the device stands between two tasks, by its own clock.
[[nodiscard]] std::vector<Row> measure_task_gap(const Effort& effort);
/// How fast a rank pulls from another process, against a plain copy.
[[nodiscard]] std::vector<Row> measure_ipc_bandwidth(const Effort& effort);
/// How long ranks take to settle on a task, by form, without NCCL.
[[nodiscard]] std::vector<Row> measure_agreement(const Effort& effort);
/// The same over UCX, and over NCCL.
[[nodiscard]] std::vector<Row> measure_ucx_agreement(const Effort& effort);
[[nodiscard]] std::vector<Row> measure_nccl_agreement(const Effort& effort);
/// How fast a rank's puts over NCCL are.
[[nodiscard]] std::vector<Row> measure_put_bandwidth(const Effort& effort);
/// Why two ranks on the first device cannot use NCCL; empty if they can.
[[nodiscard]] std::string why_no_nccl();
/// Four emulated stages on one device, by readiness and by a fixed order, against the simulator.
[[nodiscard]] std::vector<Row> measure_emulated_pipeline(const Effort& effort);

}  // namespace sluice::microbench
