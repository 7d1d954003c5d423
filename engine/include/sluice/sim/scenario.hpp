#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/host/delay_model.hpp"
#include "sluice/host/duration_model.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/rules.hpp"
#include "sluice/sim/world.hpp"

namespace sluice::sim {

/// How large each microbatch is for some chunks, as images of varying size are for an encoder: one
/// factor a microbatch, drawn once, on the times of all tasks of these chunks.
struct SizeFactor {
  std::vector<Chunk> chunks;
  /// Deviation of the factor's logarithm; its mean is 1.
  double sigma = 0;
  /// One factor a microbatch, the same in every iteration, instead of a draw.
  std::vector<double> factors;
};

/// What a message of one edge takes. Messages do not compete for a link.
struct Link {
  Duration latency{0};
  /// Bytes per second; 0 for without bound.
  double bandwidth = 0;
  /// Of one message.
  std::uint64_t bytes = 0;
  host::DelayModel jitter;

  /// Nanoseconds of `bytes` at `bandwidth`.
  [[nodiscard]] double wire_ns() const noexcept {
    return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth * 1e9 : 0;
  }
};

/// By how much later than the others each rank of a group sees a message: a draw a rank and message.
struct Skew {
  enum class Kind : std::uint8_t {
    /// Exponential of that mean.
    Exponential,
    /// Uniform from 0 to twice that mean.
    Uniform,
  };
  Kind kind = Kind::Exponential;
  Duration mean{0};
};

/// Everything about a simulated run but the methods: the model, what it takes and what varies.
struct Scenario {
  static constexpr std::uint32_t kMostReplicas = 1024;
  static constexpr std::uint32_t kLargestGroup = 64;
  static constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 25U;

  /// Zero times, free links, the default limit.
  /// @param model with backwards that are not split
  explicit Scenario(Pipeline model);

  std::string name;
  Pipeline pipeline;
  /// One a chunk.
  std::vector<host::DurationModel> times;
  std::vector<SizeFactor> sizes;
  /// One an edge; those between chunks of one stage take no time.
  std::vector<Link> links;
  /// Compute time that the jitter levels j1 to j3 go by; if not given, what each stage measures.
  std::optional<Duration> nominal_compute;
  GroupSettings group{};
  Skew skew{};
  /// Copies of the pipeline that draw for themselves; an iteration lasts as long as the slowest.
  std::uint32_t replicas = 1;
  /// One a stage.
  std::vector<std::uint32_t> limits;
  /// The limits were asked for, not defaulted.
  bool limit_given = false;
  Rules rules{};
  /// Launched tasks a device holds at once, the running one included.
  std::uint32_t depth = 1;
  Overhead overhead{};
  std::uint64_t seed = 1;
  /// Take the place of drawn times and delays wherever they return one, as from a recorded run.
  std::function<std::optional<Duration>(std::uint64_t iteration, const Task& task, bool whole)> recorded_time;
  std::function<std::optional<Duration>(const MessageId& message)> recorded_delay;

  /// The published agreement is accepted with the published rules only. With bounded admission the ranks of a
  /// group may be full of different microbatches: each names one that another has not taken in, and weight
  /// gradients, which would free a place, come after forwards.
  /// @throws ConfigError naming the field
  void validate() const;
  /// Jitter depends on compute times that the stages measure, so a run warms up first.
  [[nodiscard]] bool measures_compute() const;
};

/// The random numbers of one replica: functions of (seed, iteration, task or message) alone, and those of
/// an emulated run with the same seed.
class Draws {
 public:
  /// @param scenario valid; outlives the draws
  explicit Draws(const Scenario& scenario, std::uint32_t replica = 0);

  /// @param whole for a backward: the weight gradient is part of it
  [[nodiscard]] Duration task_time(std::uint64_t iteration, const Task& task, bool whole) const;
  [[nodiscard]] Duration message_delay(const Transit& transit) const;
  /// The part of a message's delay that no method can avoid: until the group's last rank has it.
  [[nodiscard]] Duration least_delay(const MessageId& message) const;

 private:
  [[nodiscard]] double size(std::uint64_t iteration, const Task& task) const;
  [[nodiscard]] Duration skew(const MessageId& message, std::uint32_t member) const;
  [[nodiscard]] Duration delay(const MessageId& message, Duration compute_average) const;

  const Scenario& scenario_;
  std::uint64_t seed_;
  /// By edge: latency and the time on the wire.
  std::vector<Duration> fixed_delays_;
  /// By chunk: number of its size factor, or none.
  std::vector<std::uint32_t> size_of_;
};

/// What surrounds the dispatchers of one replica.
/// @param scenario valid; outlives the surroundings
[[nodiscard]] Surroundings surroundings(const Scenario& scenario, std::uint32_t replica = 0);

/// One iteration under one method.
struct Outcome {
  /// Of the slowest replica.
  Duration makespan{0};
  /// One a stage, means over the replicas; a replica that waits for the slowest is blocked. The peak is
  /// the highest of any replica, and counts are sums.
  std::vector<StageReport> stages;
};

/// Builds the stages' dispatchers for one world; called once a replica.
using StageSetups = std::function<std::vector<StageSetup>()>;
/// Looks at a world after the iteration: its decision logs, what it ran.
using Inspect = std::function<void(const World& world, std::uint32_t replica)>;
/// Looks at a world after its warm-up iteration and may rank its stages anew.
using Learn = std::function<void(World& world, std::uint32_t replica)>;

/// Runs one iteration of every replica.
/// @param pipeline as the method runs it: with the scenario's chunks and edges, split or not, placed
///        as the method needs it
/// @param iteration which draw; the iterations of an emulated run count from 1
/// @param inspect if given, tasks that ran are kept for it
/// @param learn if given, iteration 0 runs first
/// @throws StallError, or what World refuses
[[nodiscard]] Outcome simulate(const Scenario& scenario, const Pipeline& pipeline, const StageSetups& setups,
                               std::uint64_t iteration, const Inspect& inspect = {}, const Learn& learn = {});

/// The lower bound (`lower_bound`) of one iteration, from its very draws: of the slowest replica.
[[nodiscard]] Duration bound(const Scenario& scenario, const Pipeline& pipeline, std::uint64_t iteration);

}  // namespace sluice::sim
