#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/agreement.hpp"
#include "sluice/arbiter.hpp"
#include "sluice/backpressure.hpp"
#include "sluice/clock.hpp"
#include "sluice/decision.hpp"
#include "sluice/executor.hpp"
#include "sluice/hint.hpp"
#include "sluice/inbox.hpp"
#include "sluice/iteration.hpp"
#include "sluice/observer.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/recorder.hpp"
#include "sluice/rules.hpp"
#include "sluice/schedule.hpp"
#include "sluice/schedule_window.hpp"
#include "sluice/slot_pool.hpp"
#include "sluice/stage_tasks.hpp"
#include "sluice/transport.hpp"
#include "sluice/waiting.hpp"

namespace sluice {

enum class Mode : std::uint8_t {
  /// Whatever is runnable, best ranked first.
  Readiness,
  /// A schedule in order; inputs are fetched ahead and sends never block.
  Fixed,
  /// A recorded decision log, exactly.
  Replay,
};

/// What a dispatcher decides by.
class Policy {
 public:
  static Policy readiness(Hint hint);
  /// One policy a stage, at a cost linear in the tasks of the schedule.
  /// @param schedule is validated; with ordered accumulation it is rewritten to accumulate in order
  /// @throws ConfigError naming `schedule`
  [[nodiscard]] static std::vector<Policy> fixed(const Schedule& schedule, const Pipeline& pipeline,
                                                 const Rules& rules);
  /// @param log the decisions of this stage's rank, of any number of iterations
  static Policy replay(std::vector<Decision> log, const Pipeline& pipeline, StageId stage);

  [[nodiscard]] Mode mode() const noexcept { return mode_; }
  [[nodiscard]] const Hint& hint() const noexcept { return hint_; }
  /// Slots a stage needs for the policy under the limit.
  [[nodiscard]] std::uint32_t slots(const Pipeline& pipeline, StageId stage, std::uint32_t limit,
                                    const Rules& rules) const;

 private:
  friend class Dispatcher;
  Policy(Mode mode, Hint hint) : mode_(mode), hint_(std::move(hint)) {}

  /// The stage's order in one iteration.
  [[nodiscard]] std::vector<Task> order(const Iteration& iteration) const;

  Mode mode_;
  Hint hint_;
  std::vector<Task> fixed_;
  std::vector<Decision> log_;
  std::uint32_t peak_ = 0;
};

struct DispatcherConfig {
  std::uint32_t rank = 0;
  StageId stage = 0;
  /// Most microbatches in flight on the stage.
  std::uint32_t limit = 32;
  Rules rules{};
  /// Lane of each pass. Passes of one lane run in launch order. On ranks that agree with others, backwards
  /// that are not split and weight gradients must have one lane: which of them runs would depend on when
  /// tasks end.
  std::array<Lane, kPasses> lanes{Lane::Compute, Lane::Compute, Lane::Compute};
  bool record_decisions = false;
  /// Takes what happens to the rank, if given. Outlives the dispatcher; read between its iterations.
  Recorder* recorder = nullptr;
  /// Is told what happens to the rank, if given. Outlives the dispatcher.
  Observer* observer = nullptr;
};

/// Passes whose decisions move a round on: those that take turns on the lane of the forwards or the
/// backwards.
[[nodiscard]] PassMask round_passes(const DispatcherConfig& config);

/// The backends of one rank. They outlive the dispatcher.
struct Seams {
  Executor& executor;
  Transport& transport;
  Agreement& agreement;
  const Clock& clock;
};

/// Decides what one rank runs next, and launches it: a state machine driven by `progress()`.
///
/// One thread owns a dispatcher. Nothing in `progress()` blocks, locks or allocates, except to report
/// an error. After an error the dispatcher must not be used further.
class Dispatcher {
 public:
  /// @param pipeline outlives the dispatcher
  /// @throws ConfigError naming `limit` or `stage`
  Dispatcher(const Pipeline& pipeline, const DispatcherConfig& config, Policy policy, const Seams& seams);

  /// Starts an iteration. Precondition: the last one has finished.
  /// @throws ConfigError naming `replay` if a log does not fit; ProtocolError for a held message of
  ///         another iteration
  void begin(const Iteration& iteration);

  /// Goes by another hint from the next iteration on. All ranks of a group must do so together.
  /// Preconditions: readiness mode; no iteration is under way.
  void rank_by(Hint hint);

  /// Takes in what happened and launches what can run. True if anything happened.
  /// @throws TaskError, ProtocolError, or the transport's Error
  bool progress();

  /// Every task has run, its messages were taken, and its slot is free.
  [[nodiscard]] bool finished() const noexcept { return released_ == tasks_.size(); }

  /// When `progress` may next have something to do although nobody notifies.
  [[nodiscard]] Time next_deadline() const;

  [[nodiscard]] std::uint32_t slots() const noexcept { return pool_.size(); }
  [[nodiscard]] const Iteration& iteration() const noexcept { return iteration_; }
  [[nodiscard]] const StageTasks& tasks() const noexcept { return tasks_; }
  [[nodiscard]] const DispatcherConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Arbiter& arbiter() const noexcept { return arbiter_; }
  [[nodiscard]] const Backpressure& backpressure() const noexcept { return backpressure_; }
  /// Most microbatches in flight at once since `begin`.
  [[nodiscard]] std::uint32_t peak_in_flight() const noexcept { return peak_; }
  [[nodiscard]] const DecisionLog& log() const noexcept { return log_; }
  [[nodiscard]] DecisionLog& log() noexcept { return log_; }

  /// Why the rank launches nothing, in one word, if nothing can be launched now. What is here and held comes
  /// before what has not come. Allocates nothing.
  [[nodiscard]] WaitFor waits_for() const;
  /// What this rank waits for: for stall reports.
  [[nodiscard]] Waiting waiting() const;
  /// The same as text, one line a chunk.
  [[nodiscard]] std::string waiting_report() const;

 private:
  /// Flags of an Entry.
  static constexpr std::uint8_t kForwardLaunched = 1;
  static constexpr std::uint8_t kBackwardLaunched = 2;
  static constexpr std::uint8_t kWhole = 4;
  /// The last pass has ended.
  static constexpr std::uint8_t kComputed = 8;
  /// Its credit went back to the limit.
  static constexpr std::uint8_t kCredited = 16;
  static constexpr std::uint8_t kReleased = 32;
  /// A gradient is here whose accumulation is not yet in turn.
  static constexpr std::uint8_t kWaitsForTurn = 64;

  struct Entry {
    Slot slot = kNoSlot;
    std::uint8_t inputs_missing = 0;
    /// Gradients and the local forward.
    std::uint8_t gradients_missing = 0;
    std::uint8_t sends = 0;
    std::uint8_t flags = 0;
  };
  /// Forwards of a source chunk that may be launched next. The oldest is among them wherever it may come in:
  /// the ranks of a group need not see room for others at the same time, but all come to have it in common.
  struct Nominees {
    static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
    std::uint32_t best = kNobody;
    /// Nobody where it is the best.
    std::uint32_t oldest = kNobody;

    [[nodiscard]] bool contains(std::uint32_t microbatch) const noexcept {
      return best == microbatch || oldest == microbatch;
    }
    void remove(Microbatch microbatch) noexcept {
      if (best == microbatch) best = kNobody;
      if (oldest == microbatch) oldest = kNobody;
    }
  };
  /// Launched accumulations of one chunk that have not ended; all on one lane.
  struct Accumulating {
    Lane lane = Lane::Compute;
    std::uint32_t running = 0;
  };

  bool poll_done();
  bool poll_send_done();
  bool poll_offers();
  bool poll_arrivals();
  bool launch_candidates();
  void tell_idle(bool happened);

  void finish(const Done& done);
  void finish_forward(const Task& task, Entry& state);
  void finish_backward(const Task& task, Entry& state);
  void send(const Task& task, EdgeId edge, Direction direction, Entry& state);
  void forward_available(const Task& task, Entry& state);
  void weight_grad_available(const Task& task, Entry& state);
  void wait_for_turn(Entry& state);
  void accumulated(std::uint32_t position);
  void computed(const Task& task, Entry& state);
  void give_back(const Task& task, Entry& state);
  void move_window();

  void take_offer(const Offer& offer);
  void accept(const Offer& offer, Slot slot);
  void take_activation(const Offer& offer);
  void take_gradient(const Offer& offer);
  void admit_waiting();
  bool admit_first_waiting();
  void admit(std::uint32_t position, Microbatch microbatch);
  [[nodiscard]] bool admits(std::uint32_t position, Microbatch microbatch) const;

  void size_forward_sets();
  [[nodiscard]] bool source(std::uint32_t position) const { return in_edges_[position].empty(); }
  void refresh_sources();
  /// A nominated forward has its credit, so that no chunk that is admitted meanwhile takes it.
  [[nodiscard]] bool nominees_hold_credits() const {
    return by_readiness() && tasks_.chunks() > 1 && config_.rules.bounded_admission;
  }
  [[nodiscard]] std::uint32_t nominate(std::uint32_t position) const;
  [[nodiscard]] std::uint32_t nominate_oldest(std::uint32_t position) const;
  void set_runnable(const Task& task, bool runnable);
  void announce();
  void backward_ready(const Task& task, Entry& state);
  [[nodiscard]] bool by_readiness() const { return policy_.mode() == Mode::Readiness; }
  [[nodiscard]] bool in_turn(const Task& task) const;
  [[nodiscard]] bool same_lane(Pass a, Pass b) const { return lane(a) == lane(b); }
  [[nodiscard]] Lane lane(Pass pass) const { return config_.lanes[static_cast<std::size_t>(pass)]; }
  [[nodiscard]] PassMask lanes_with_room() const;

  [[nodiscard]] std::optional<Task> decide(PassMask allowed);
  [[nodiscard]] bool weight_grad_makes_room() const;
  [[nodiscard]] std::optional<Task> next_in_order(PassMask allowed) const;
  [[nodiscard]] bool ready(const Task& task) const;
  [[nodiscard]] bool runs_whole(const Task& task) const;
  [[nodiscard]] bool may_accumulate(const Task& task) const;
  void launch(const Task& task);
  void note_launched(const Task& task, Entry& state);
  [[nodiscard]] Decision decision_on(const Task& task, const Entry& state) const;
  [[nodiscard]] bool recording() const noexcept { return config_.recorder != nullptr; }
  [[nodiscard]] Time progress_time();
  void note_task(EventKind kind, const Task& task, bool whole = false, std::int64_t value = 0);
  void note_message(EventKind kind, const MessageId& id, std::int64_t value = 0);
  void note_iteration(EventKind kind);
  void note_done(const Done& done);
  void note_asked(PassMask allowed);
  [[nodiscard]] std::uint32_t held_by_limit() const;
  void add_wait(std::uint32_t index, Waiting& waiting) const;
  bool add_ready(const Task& task, Waiting& waiting) const;
  void add_forward_wait(const Task& task, const Entry& state, Waiting& waiting) const;
  void add_backward_wait(const Task& task, const Entry& state, Waiting& waiting) const;
  [[nodiscard]] WaitFor held_by(const Task& task) const;
  [[nodiscard]] WaitFor order_waits_for() const;
  [[nodiscard]] FarEnd far_end(EdgeId edge, Direction direction, bool incoming) const;

  [[nodiscard]] Entry& entry(const Task& task) { return entries_[tasks_.index(task.chunk, task.microbatch)]; }
  [[nodiscard]] const Entry& entry(const Task& task) const {
    return entries_[tasks_.index(task.chunk, task.microbatch)];
  }

  const Pipeline& pipeline_;
  DispatcherConfig config_;
  Policy policy_;
  Seams seams_;
  StageTasks tasks_;
  Backpressure backpressure_;
  SlotPool pool_;
  ScheduleWindow window_;
  Arbiter arbiter_;
  Inbox inbox_;
  DecisionLog log_;

  std::vector<std::span<const EdgeId>> in_edges_;
  std::vector<std::span<const EdgeId>> out_edges_;
  std::vector<Entry> entries_;
  /// Forwards offered but not admitted, by the hint's rank; one set a chunk.
  std::vector<ReadySet> waiting_;
  /// Forwards of source chunks that have not been launched, by the hint's rank; one set a chunk.
  std::vector<ReadySet> unlaunched_;
  std::vector<Nominees> nominated_;
  /// Where nominees hold credits: the next microbatch of each source, in an order that all ranks of a group
  /// share whatever they have admitted.
  std::vector<Microbatch> next_nominee_;
  bool has_source_ = false;
  /// The next microbatch of each chunk to accumulate.
  std::vector<Microbatch> next_accumulation_;
  /// Kept where backwards and weight gradients have lanes of their own.
  std::vector<Accumulating> accumulating_;
  std::vector<RunnableChange> changes_;

  Iteration iteration_;
  std::vector<Task> order_;
  std::size_t cursor_ = 0;
  /// In fixed and replay mode: pairs with a WeightGrad of their own.
  std::vector<bool> separate_;
  std::uint32_t released_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t peak_ = 0;
  std::uint32_t held_by_order_ = 0;
  /// Launched tasks of each lane that have not ended, and the last of them: for stall reports.
  std::array<std::uint32_t, kLanes> unended_{};
  std::array<Task, kLanes> last_launched_{};
  /// When the current progress() first had something to record; `kNever` until then.
  Time progress_time_ = kNever;
  /// The wait for the group's next decision has been recorded.
  bool asked_ = false;
  /// The observer knows what the rank waits for.
  bool idle_told_ = false;
  /// Pairs whose last pass was launched, and those whose last pass has ended.
  std::uint32_t launched_pairs_ = 0;
  std::uint32_t computed_ = 0;
};

}  // namespace sluice
