#pragma once

#include <cstdint>
#include <memory>

#include "sluice/agreement.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/host/delayed_transport.hpp"
#include "sluice/host/iteration_report.hpp"
#include "sluice/host/observed_executor.hpp"
#include "sluice/host/run_settings.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/iteration.hpp"
#include "sluice/waiting.hpp"

namespace sluice::host {

/// Watches all ranks of a run: tells each whether to go on, and hears whether it gets on.
class RunWatch {
 public:
  virtual ~RunWatch() = default;

  /// Another rank has failed, so that this one need not go on.
  [[nodiscard]] virtual bool failed() const noexcept = 0;
  /// The rank got something done, or waits for a moment that is known.
  virtual void progressed(Time at) noexcept = 0;
  /// The rank found nothing to do.
  /// @throws StallError if that has lasted too long on all ranks
  virtual void idle(Time now) = 0;
};

/// What one rank works with. All of it outlives the runner.
struct RankParts {
  std::uint32_t rank = 0;
  StageId stage = 0;
  SlotBuffers& buffers;
  Transport& transport;
  Agreement& agreement;
  Wake& wake;
  RunWatch& watch;
};

/// One rank of a run: its device and its dispatcher, driven by the calling thread.
class RankRunner {
 public:
  /// @param pipeline, workload, settings outlive the runner
  /// @throws ConfigError for what a dispatcher or a backend refuses
  RankRunner(const Pipeline& pipeline, const Workload& workload, const RunSettings& settings, Policy policy,
             const RankParts& parts);

  /// Runs the rank's share of an iteration, hooks included.
  /// @throws the rank's error; Aborted if another one failed
  RankReport run(const Iteration& iteration);

  /// What the rank waits for, and since when.
  [[nodiscard]] Waiting waiting() const;

  [[nodiscard]] Dispatcher& dispatcher() noexcept { return *dispatcher_; }

 private:
  [[nodiscard]] std::unique_ptr<Executor> make_device() const;
  [[nodiscard]] Duration compute_average() const;
  void dispatch(RankReport& report);
  void summarize(RankReport& report) const;

  const Pipeline& pipeline_;
  const Workload& workload_;
  const RunSettings& settings_;
  RankParts parts_;
  SteadyClock clock_;
  std::unique_ptr<Executor> device_;
  std::unique_ptr<ObservedExecutor> observed_;
  std::unique_ptr<DelayedTransport> delayed_;
  std::unique_ptr<Dispatcher> dispatcher_;
  Time last_progress_{};
};

/// Once on a thread that drives a rank: sleeps end when they should.
void sharpen_sleeps() noexcept;

}  // namespace sluice::host
