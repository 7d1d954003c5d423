#include "gpu/agreeing_ranks.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "rank_threads.hpp"
#include "sluice/arbiter.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

constexpr auto kLongest = std::chrono::seconds(20);

/// Where the ranks wait for each other, without sleeping.
class Meeting {
 public:
  template <typename Idle>
  void meet(const Idle& idle) {
    const std::uint32_t round = rounds_.load();
    if (came_.fetch_add(1) + 1 == kAgreeingRanks) {
      came_.store(0);
      rounds_.fetch_add(1);
      return;
    }
    drive([&] {
      idle();
      return rounds_.load() != round;
    });
  }

  /// Calls `turn` until it says that all is done.
  template <typename Turn>
  void drive(const Turn& turn) const {
    const host::SteadyClock clock;
    const Time limit = clock.now() + kLongest;
    while (!turn()) {
      if (broken_) throw Error("the other rank has failed");
      if (clock.now() > limit) throw Error("the ranks do not come to a decision");
      std::this_thread::yield();
    }
  }

  void give_up() noexcept { broken_ = true; }

 private:
  std::atomic<std::uint32_t> came_{0};
  std::atomic<std::uint32_t> rounds_{0};
  std::atomic<bool> broken_{false};
};

class Rank {
 public:
  Rank(AgreeingRank& rank, const AgreedStage& stage, Meeting& meeting)
      : rank_(rank),
        meeting_(meeting),
        microbatches_(stage.pipeline.microbatches()),
        arbiter_(stage.tasks, Hint::named("fb", stage.pipeline, 0)) {}

  void run_iteration(std::uint64_t index, std::vector<double>& us) {
    arbiter_.begin();
    rank_.agreement().begin({index}, arbiter_);
    for (Microbatch m = 0; m < microbatches_; ++m) us.push_back(agree_on({m, 0, Pass::Forward}));
    meet();
  }

 private:
  void meet() {
    meeting_.meet([&] { rank_.idle(); });
  }

  double agree_on(const Task& ready) {
    meet();
    const Time before = clock_.now();
    const RunnableChange change{ready, true};
    arbiter_.insert(ready);
    rank_.agreement().announce({&change, 1});
    std::optional<Task> task;
    meeting_.drive([&] {
      task = rank_.agreement().poll(arbiter_, kAllPasses);
      return task.has_value();
    });
    const Time after = clock_.now();
    arbiter_.decided(*task);
    return std::chrono::duration<double, std::micro>(after - before).count();
  }

  AgreeingRank& rank_;
  Meeting& meeting_;
  Microbatch microbatches_;
  Arbiter arbiter_;
  host::SteadyClock clock_;
};

}  // namespace

std::vector<double> time_agreement(std::uint32_t decisions, const AgreedStage& stage, const MakeRank& make) {
  Meeting meeting;
  std::vector<std::vector<double>> of_rank(kAgreeingRanks);
  test::on_each_rank(kAgreeingRanks, [&](process::Bootstrap& bootstrap) {
    try {
      const std::unique_ptr<AgreeingRank> agreeing = make(bootstrap);
      Rank rank(*agreeing, stage, meeting);
      std::vector<double> own;
      std::uint64_t index = 0;
      rank.run_iteration(index++, own);
      for (own.clear(); own.size() < decisions;) rank.run_iteration(index++, own);
      of_rank[bootstrap.rank()] = std::move(own);
    } catch (...) {
      meeting.give_up();
      throw;
    }
  });
  std::vector<double> us = of_rank.front();
  for (const std::vector<double>& other : of_rank) {
    for (std::size_t i = 0; i < other.size(); ++i) us[i] = std::max(us[i], other[i]);
  }
  return us;
}

}  // namespace sluice::microbench
