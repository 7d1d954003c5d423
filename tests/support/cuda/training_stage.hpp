#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/device_arithmetic_stage.hpp"
#include "sluice/cuda/cuda_executor.hpp"
#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/task_code.hpp"
#include "sluice/graphs/graph_cache.hpp"
#include "sluice/host/run_settings.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::test {

/// How the work of a rank's tasks gets on the device.
enum class DeviceCode {
  Eager,          ///< straight work, call by call
  Captured,       ///< branched work in graphs, all of them captured before the run
  CapturedUnmet,  ///< branched work in graphs that are captured when a task first comes
};

/// How the ranks of a pipeline train arithmetic on devices.
struct DeviceTraining {
  DeviceTraining(const Pipeline& run, std::vector<Iteration> order)
      : pipeline(run), iterations(std::move(order)) {}

  const Pipeline& pipeline;
  std::vector<Iteration> iterations;
  std::function<Policy(StageId)> policy_of;
  /// Eager if empty.
  std::function<DeviceCode(StageId)> code_of;
  host::RunSettings settings;
  cuda::CudaExecutor::Options executor;
  graphs::GraphCache::Options cache;
};

/// What a rank's tasks did on its device.
struct GraphUse {
  std::uint64_t captures = 0;
  std::uint64_t launches = 0;
  std::uint64_t eager = 0;
  std::uint32_t fewest_nodes = 0;  ///< of a graph
  std::uint32_t unverified = 0;
};

/// The device side of a rank: its chunks, their memory, and the code of their tasks.
class TrainingStage {
 public:
  TrainingStage(const DeviceTraining& training, StageId stage, std::uint32_t rank, std::uint32_t slots);

  [[nodiscard]] cuda::SlotMemory& memory() { return *memory_; }
  /// The rank's device; captures what is captured before the run.
  [[nodiscard]] std::unique_ptr<cuda::CudaExecutor> make_executor(const Clock& clock, std::uint32_t slots);

  /// One step of gradient descent of each chunk.
  void step();
  /// By chunk of the stage.
  [[nodiscard]] std::vector<double> weights() const;
  /// All zero for eager code.
  [[nodiscard]] GraphUse graph_use() const;

 private:
  const DeviceTraining& training_;
  StageId stage_;
  std::uint32_t rank_;
  DeviceCode kind_;
  std::vector<std::unique_ptr<DeviceArithmeticStage>> stages_;
  std::unique_ptr<cuda::SlotMemory> memory_;
  std::unique_ptr<cuda::TaskCode> code_;
  /// `code_`, if it is a cache.
  graphs::GraphCache* cache_ = nullptr;
};

}  // namespace sluice::test
