#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control_thread.hpp"

namespace sluice::process {

/// The control thread of a rank other than 0: one connection, to the hub.
class ControlMember final : public ControlThread {
 public:
  /// Connects and says who it is.
  /// @throws Error if the hub cannot be reached
  ControlMember(std::uint32_t rank, std::uint32_t ranks, ControlOptions options, const std::string& host,
                std::uint16_t port, std::uint64_t token);
  ~ControlMember() override { leave(); }

 private:
  void collect(std::vector<pollfd>& polled) override;
  void serve(std::span<const pollfd> polled) override;
  void take_gather(std::uint64_t sequence, Bytes blob) override;
  void take_failure(Failure failure) override;
  void take_report(std::string json) override;
  void beat() override;
  void watch(Duration turn) override;
  void flush() override;
  void spread(const Failure& failure) override;
  void say_goodbye() override;
  bool part() override;

  void take_frames();
  void take(const Frame& frame);
  void take_pong(const Pong& pong);
  void ping();
  /// No connection any more.
  [[nodiscard]] bool alone() const noexcept { return !link_; }

  std::optional<ControlLink> link_;
  /// Nothing was heard of the hub for so long.
  Duration quiet_{0};
  /// The hub has not let the run start for so long.
  Duration waiting_{0};
  bool welcome_ = false;
  std::uint32_t pings_ = 0;
  Duration shortest_trip_ = Duration::max();
  /// Said to the hub, which has not answered for so long.
  std::optional<Failure> own_failure_;
  Duration unanswered_{0};
};

}  // namespace sluice::process
