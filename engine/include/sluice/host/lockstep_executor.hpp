#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sluice/agree/group_channel.hpp"
#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/host/emulated_executor.hpp"

namespace sluice::host {

/// One rank's emulated device in a group whose tasks hold collectives: a task starts when the last rank of
/// the group has launched it, and ends on all of them at once.
///
/// The ranks tell each other when they launched, by clocks that agree: those of one host.
class LockstepExecutor final : public Executor {
 public:
  /// Bytes of a message on the channel.
  static constexpr std::size_t kLongestMessage = 32;

  /// @param peers the group, for this executor alone; outlives it
  /// @param task_time gives the same on all ranks
  /// @param depth,lead as of EmulatedExecutor
  /// @throws ConfigError naming `launch-ahead` if depth is 0
  LockstepExecutor(const Clock& clock, agree::GroupChannel& peers, TaskTime task_time,
                   std::uint32_t depth = 1, Duration lead = EmulatedExecutor::kAnyLead);

  [[nodiscard]] std::uint32_t room(Lane lane) const override;
  /// @throws ProtocolError naming the rank of the group that launched another task, as `poll`
  void launch(const Launch& launch) override;
  bool poll(Done& done) override;
  [[nodiscard]] Time next_deadline() const override;

 private:
  /// A task that somebody has launched.
  struct Joint {
    Launch launch;
    /// The ranks that have launched it.
    std::uint32_t launched = 0;
    Task theirs;
    Time last{};
    Time started{};
    Time ended{};
  };
  struct Queue {
    /// A ring by launch number.
    std::vector<Joint> joint;
    std::uint64_t polled = 0;
    std::uint64_t launched = 0;
    /// Tasks whose times are known: all ranks have launched them.
    std::uint64_t started = 0;
    std::vector<std::uint64_t> launched_by;
    Time free_from{};
  };

  [[nodiscard]] Joint& joint(Queue& queue, std::uint64_t number) const {
    return queue.joint[static_cast<std::size_t>(number % queue.joint.size())];
  }
  void receive();
  void join(Queue& queue, std::uint64_t number, std::uint32_t member, const Task& task, Time at);
  void start(Queue& queue);
  [[noreturn]] void refuse(std::uint32_t member, const Task& task, const Task& theirs) const;

  const Clock& clock_;
  agree::GroupChannel& peers_;
  TaskTime task_time_;
  std::uint32_t depth_;
  Duration lead_;
  std::array<Queue, kLanes> lanes_;
};

}  // namespace sluice::host
