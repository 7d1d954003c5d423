#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control_link.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/control_frame.hpp"
#include "sluice/process/control_plane.hpp"

namespace sluice::process {

/// What the control threads of the hub and of the members have in common: the loop, and what other threads
/// ask of it.
class ControlThread {
 public:
  ControlThread(std::uint32_t rank, std::uint32_t ranks, ControlOptions options);
  virtual ~ControlThread() = default;
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  /// @throws Error if the ranks do not come together
  void start();
  /// Ends the thread. To be called before the derived part is destroyed.
  void leave();

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] const ControlOptions& options() const noexcept { return options_; }

  std::vector<Bytes> all_gather(std::span<const std::byte> own);
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<Failure> failure() const;
  void on_failure(std::function<void(const Failure&)> hook);
  void fail(Failure::Kind kind, const std::string& cause);
  void suspect(const std::string& cause);
  void progressed(Time at) noexcept;
  void working(bool inside) noexcept;
  void report(const std::string& json);
  [[nodiscard]] std::vector<std::string> reports(Duration wait);
  [[nodiscard]] Duration clock_offset() const noexcept { return Duration(offset_.load()); }

 protected:
  // What follows is called on the control thread only.

  /// Appends the descriptors to wait for.
  virtual void collect(std::vector<pollfd>& polled) = 0;
  /// @param polled what collect() appended, with its events
  virtual void serve(std::span<const pollfd> polled) = 0;
  virtual void take_gather(std::uint64_t sequence, Bytes blob) = 0;
  virtual void take_failure(Failure failure) = 0;
  virtual void take_report(std::string json) = 0;
  virtual void beat() = 0;
  /// Looks for who is late.
  /// @param turn time since the last call in which this thread could have heard of others
  virtual void watch(Duration turn) = 0;
  /// Sends what the sockets take.
  virtual void flush() = 0;
  /// The run has failed.
  virtual void spread(const Failure& failure) = 0;
  /// Says goodbye; false once nobody is left to be waited for.
  virtual void say_goodbye() = 0;
  virtual bool part() = 0;

  /// The first one counts.
  void declare(Failure failure);
  /// All ranks have connected: what fails from now on is the run.
  void set_together();
  void set_ready();
  void set_gathered(Gathered gathered);
  /// The hub has left in order: no exchange will come to an end.
  void set_hub_left();
  void set_report(std::uint32_t rank, std::string json);
  /// The rank will not report.
  void set_gone(std::uint32_t rank);
  void set_offset(Duration offset) noexcept { offset_.store(offset.count()); }
  [[nodiscard]] Heartbeat own_heartbeat() const noexcept;
  [[nodiscard]] Time now() const { return clock_.now(); }
  [[nodiscard]] Duration heartbeat() const noexcept { return heartbeat_; }
  [[nodiscard]] std::string name(std::uint32_t rank) const;
  [[nodiscard]] Failure failure_of(const ControlLink& link, std::uint32_t rank) const;
  [[nodiscard]] Failure silence_of(std::uint32_t rank, Duration quiet) const;
  [[nodiscard]] Failure garbage_of(std::uint32_t rank, const std::string& what) const;

 private:
  struct Requests {
    std::optional<std::pair<std::uint64_t, Bytes>> gather;
    std::optional<Failure> failure;
    std::optional<std::string> report;
    bool leave = false;
  };

  void run();
  void turn(Time& last_turn, Time& next_beat);
  void wait(Time until);
  /// False if this thread is to end.
  bool take_requests();
  /// What there was to send of a failure has been sent.
  void call_hooks();
  void farewell();
  void wake() noexcept;
  [[nodiscard]] std::string with_name(const std::string& cause) const;

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const ControlOptions options_;
  const Duration heartbeat_;
  const host::SteadyClock clock_;
  Descriptor wake_;
  std::vector<pollfd> polled_;
  std::thread thread_;

  std::atomic<bool> failed_{false};
  std::atomic<Time::rep> progress_{0};
  std::atomic<bool> inside_{false};
  std::atomic<Duration::rep> offset_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Requests requests_;
  bool together_ = false;
  bool ready_ = false;
  bool hub_left_ = false;
  /// The others have been told of the failure, so that this process may end.
  bool told_ = false;
  std::uint64_t next_gather_ = 0;
  std::optional<Gathered> gathered_;
  std::optional<Failure> failure_;
  std::vector<std::function<void(const Failure&)>> hooks_;
  std::vector<std::optional<std::string>> reports_;
  std::vector<bool> gone_;
};

}  // namespace sluice::process
