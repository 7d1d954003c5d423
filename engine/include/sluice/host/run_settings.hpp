#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/executor.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/host/emulated_executor.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/observer.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/recorder.hpp"
#include "sluice/rules.hpp"

namespace sluice::host {

/// @param slots of the stage
/// @param wake to be notified of what ends, by a device that can
using DeviceFactory = std::function<std::unique_ptr<Executor>(std::uint32_t rank, StageId stage,
                                                              std::uint32_t slots, Wake& wake)>;

/// What the ranks run: user code, or nothing but the passing of time.
struct Workload {
  /// User code by chunk; empty for an emulated device. Outlives the run.
  std::vector<Stage*> stages;
  /// How long the emulated device takes; unused with user code.
  TaskTime task_time;
  /// Makes a rank's device, if it is neither of these: one of the embedder's own. Called once a rank, maybe
  /// on another thread than the rank's.
  DeviceFactory make_device;
  /// Ranks whose emulated device runs in lockstep with this one's; null for none. Outlives the run.
  agree::GroupChannel* lockstep = nullptr;
  /// Called on each rank's thread before and after every iteration; may be empty. An exception ends
  /// the run.
  std::function<void(std::uint32_t rank, const Iteration&)> before_iteration;
  std::function<void(std::uint32_t rank, const Iteration&)> after_iteration;
  /// Called once, on the thread of the first rank that fails, so that hooks that wait can give up.
  std::function<void(const std::string& cause)> on_failure;
};

/// How the ranks of a pipeline run it. The same on all of them.
struct RunSettings {
  std::uint32_t limit = 32;
  /// Most microbatches in flight, one entry a stage; empty for `limit` on every stage.
  std::vector<std::uint32_t> limits;
  Rules rules{};
  /// Launched tasks a rank's device holds at once, the running one included.
  std::uint32_t depth = 1;
  /// How long before the end of the running task the next one is launched, on an emulated device.
  Duration lead = EmulatedExecutor::kAnyLead;
  /// How long an idle rank sleeps before it looks again at what notifies nobody; 0 for not at all.
  Duration poll_interval{0};
  DelayModel delays;
  /// Compute time that the delay levels j1 to j3 go by; if not given, what each stage measures. Given,
  /// delays do not depend on how the work is ordered or split.
  std::optional<Duration> nominal_compute;
  std::uint64_t seed = 0;
  /// An iteration without progress on any rank for so long is an error.
  Duration stall_timeout = std::chrono::seconds(60);
  bool record_decisions = false;
  /// Where each stage's rank records what happens to it; empty for nowhere. They outlive the run.
  std::vector<Recorder*> recorders;
  /// Told what happens to each stage's rank, on the rank's thread; empty for nobody. They outlive the run.
  std::vector<Observer*> observers;

  [[nodiscard]] std::uint32_t limit_of(StageId stage) const { return limits.empty() ? limit : limits[stage]; }
};

}  // namespace sluice::host
