#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/process/bootstrap.hpp"

namespace sluice::process {

/// Why the run ends early.
struct Failure {
  enum class Kind : std::uint8_t {
    /// Its connection closed: the process has ended.
    Died,
    /// Nothing was heard of it for longer than the stall timeout: stopped, or its host is gone.
    Silent,
    /// It failed and said so.
    Failed,
    /// No rank made progress for longer than the stall timeout.
    Stalled,
  };
  Kind kind = Kind::Failed;
  /// The rank at fault; for Stalled, the one that found it.
  std::uint32_t rank = 0;
  /// As people should read it: names the rank.
  std::string cause;
};

struct ControlOptions {
  /// No progress anywhere, or nothing heard of a rank, for so long ends the run.
  Duration stall_timeout = std::chrono::seconds(60);
  Duration heartbeat = std::chrono::milliseconds(250);
  /// Longest wait for the ranks to connect.
  Duration connect_timeout = std::chrono::seconds(60);
  /// Longest wait of an `all_gather` for the last rank.
  Duration exchange_timeout = std::chrono::minutes(10);
  /// How ranks are called in messages; `rank 3` if empty.
  std::function<std::string(std::uint32_t)> name_of;
};

/// What the processes of a run tell each other apart from the pipeline's messages: that they live, that
/// they get on, and why they end. Rank 0 is the hub of TCP connections, one to each rank; a thread of its own
/// serves them, so that a rank is heard of while its code computes.
///
/// A rank that dies is known everywhere within a heartbeat or two: its connection closes, and the hub
/// tells the others; if the hub dies, all connections close.
class ControlPlane {
 public:
  /// Connects all ranks.
  /// @throws Error naming the ranks that did not come; ConfigError naming `stall_timeout`, `heartbeat`,
  ///         `connect_timeout` or `exchange_timeout` if it is not positive
  ControlPlane(Bootstrap& bootstrap, ControlOptions options);
  /// Leaves in order: the others do not take the closing of the connection for a death. Destroyed by an
  /// exception, it fails instead. Takes about a second at most. Once the hub has left, ranks hear no more of
  /// each other: a run ends with an `all_gather`.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept;
  [[nodiscard]] std::uint32_t ranks() const noexcept;

  /// Every rank gives its bytes and gets everybody's, in rank order. Blocks until all came, or the run
  /// has failed; all ranks make the same calls in the same order, each from one thread.
  /// @throws Aborted with the failure's cause; Error if the bytes are more than longest_blob()
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own);

  /// Whether the run has failed. Cheap, from any thread.
  [[nodiscard]] bool failed() const noexcept;
  [[nodiscard]] std::optional<Failure> failure() const;
  /// Called once on the control thread as soon as the run has failed, and at once if it has already. Must
  /// neither throw nor wait.
  void on_failure(std::function<void(const Failure&)> hook);

  /// This rank ends the run; every rank learns the cause. Only the first failure counts, and the hub says
  /// which that is: returns when it is known, after two seconds at most.
  void fail(Failure::Kind kind, const std::string& cause);
  /// Something broke that may be the consequence of another rank's end, such as a connection to it: the
  /// control plane gets a moment to find the real cause, otherwise this is the failure.
  void suspect(const std::string& cause);

  /// This rank got something done at that time, or is waiting for a known moment. Cheap, from any thread.
  void progressed(Time at) noexcept;
  /// The watchdog counts only while some rank is inside of an iteration.
  void working(bool inside) noexcept;

  /// After a failure: gives what this rank waits for (JSON) to the hub, which collects everybody's. One
  /// of more than 16 MiB is left out.
  void report(const std::string& json);
  /// On the hub, after a failure: the reports that came within `wait`, by rank; empty for a rank without.
  /// Returns as soon as all ranks that live have given theirs.
  [[nodiscard]] std::vector<std::string> reports(Duration wait);

  /// What must be added to this host's steady clock to get rank 0's.
  [[nodiscard]] Duration clock_offset() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::process
