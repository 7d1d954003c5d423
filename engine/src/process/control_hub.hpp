#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control_thread.hpp"

namespace sluice::process {

/// The control thread of rank 0: connections to all others.
class ControlHub final : public ControlThread {
 public:
  /// Waits for the ranks at the listener; others that connect are turned away.
  ControlHub(std::uint32_t ranks, ControlOptions options, Listener listener, std::uint64_t token);
  ~ControlHub() override { leave(); }

 private:
  struct Member {
    std::optional<ControlLink> link;
    bool joined = false;
    /// Said goodbye.
    bool left = false;
    /// Nothing was heard of it for so long.
    Duration quiet{0};
    Heartbeat heartbeat;
    /// Progress as of the last look.
    Time seen{};
    /// Its share of the current exchange.
    std::optional<Bytes> blob;
  };
  /// Has connected but not said who it is.
  struct Stranger {
    ControlLink link;
    Duration quiet{0};
  };

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

  void accept_strangers();
  void admit_strangers();
  /// True if the stranger is a stranger no more.
  bool admit(Stranger& stranger);
  void welcome_all();
  void serve_member(std::uint32_t rank);
  void take_frames(std::uint32_t rank);
  void take(std::uint32_t rank, const Frame& frame);
  void gather(std::uint32_t rank, std::uint64_t sequence, Bytes blob);
  void complete_exchange();
  void lose(std::uint32_t rank);
  void broadcast(const SharedFrame& frame);

  void watch_start(Duration turn);
  void watch_silence(Duration turn);
  void watch_progress(Duration turn);
  void watch_exchange(Duration turn);
  [[nodiscard]] bool exchanging() const;
  /// `rank 2`, `rank 2 and rank 3`, `rank 2, rank 3 and rank 5`: those for which `missing` holds.
  template <typename Missing>
  [[nodiscard]] std::string names_of(const Missing& missing) const;

  Listener listener_;
  std::uint64_t token_;
  std::vector<Member> members_;
  std::vector<Stranger> strangers_;
  std::uint32_t joined_ = 0;
  bool welcomed_ = false;
  /// Whom each descriptor of collect() belongs to.
  std::vector<std::uint32_t> polled_;
  std::uint64_t exchange_ = 0;
  Duration starting_{0};
  Duration exchanging_{0};
  /// No rank got anything done for so long.
  Duration still_{0};
};

}  // namespace sluice::process
