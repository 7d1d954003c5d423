#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/training_rank.hpp"
#include "memory_bootstrap.hpp"
#include "rank_threads.hpp"
#include "sluice/agree/group_agreement.hpp"
#include "sluice/agreement.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/process/bootstrap.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::test {

/// Stands for a wake that is made later.
class WakeToCome final : public Wake {
 public:
  void become(Wake& wake) noexcept { wake_.store(&wake, std::memory_order_release); }
  /// Nobody is notified any more.
  void end() noexcept { wake_.store(nullptr, std::memory_order_release); }

  void notify() noexcept override {
    if (Wake* const wake = wake_.load(std::memory_order_acquire)) wake->notify();
  }
  void wait_until(Time deadline) override { wake_.load(std::memory_order_acquire)->wait_until(deadline); }

 private:
  std::atomic<Wake*> wake_{nullptr};
};

/// How the ranks of a stage agree.
struct GroupForm {
  std::function<agree::ChannelNeeds(const StageTasks&)> needs;
  /// One rank's end, made on its thread. The group's members make theirs at the same time.
  std::function<std::shared_ptr<Agreement>(const StageTasks&, agree::GroupChannel&, const Clock&,
                                           process::Bootstrap& group)>
      make;
};

/// What training with groups of ranks leaves, by member of the groups.
struct GroupTrained {
  /// By chunk.
  std::vector<std::vector<double>> weights;
  /// By stage.
  std::vector<std::vector<AgreementStatistics>> agreements;
};

/// One thread a rank; rank `member` of each stage's group has that of the next stage for its neighbour.
class GroupTraining {
 public:
  GroupTraining(const DeviceTraining& training, std::uint32_t members, const GroupForm& form)
      : training_(training), members_(members), form_(form), stages_(training.pipeline.stages()) {
    for (std::uint32_t member = 0; member < members; ++member) columns_.emplace_back(stages_);
    for (StageId stage = 0; stage < stages_; ++stage) {
      groups_.emplace_back(members);
      tasks_.emplace_back(training.pipeline, stage);
      wakes_.push_back(std::make_unique<WakeToCome[]>(members));
      std::vector<Wake*> wakes;
      for (std::uint32_t member = 0; member < members; ++member) wakes.push_back(&wakes_[stage][member]);
      channels_.push_back(std::make_unique<host::InProcessGroup>(wakes, form.needs(tasks_[stage])));
    }
    trained_.weights.assign(members, std::vector<double>(training.pipeline.chunks()));
    trained_.agreements.assign(members, std::vector<AgreementStatistics>(stages_));
  }

  /// Once.
  GroupTrained run() {
    on_each_rank(stages_ * members_, [this](process::Bootstrap& bootstrap) {
      try {
        run_rank(static_cast<StageId>(bootstrap.rank() / members_), bootstrap.rank() % members_);
      } catch (...) {
        watch_.fail();
        throw;
      }
    });
    return trained_;
  }

 private:
  void run_rank(StageId stage, std::uint32_t member) {
    cuda::use_device(0);
    MemoryBootstrap group(groups_[stage], member);
    MemoryBootstrap column(columns_[member], stage);
    const auto agreement = form_.make(tasks_[stage], channels_[stage]->channel(member), clock_, group);
    TrainingRank rank(training_, column, watch_, agreement.get());
    wakes_[stage][member].become(rank.wake());
    std::exception_ptr error;
    try {
      rank.run();
    } catch (...) {
      watch_.fail();
      error = std::current_exception();
    }
    // After all have sent their last messages.
    static_cast<void>(group.all_gather({}));
    wakes_[stage][member].end();
    if (error != nullptr) std::rethrow_exception(error);
    const std::vector<double> weights = rank.weights();
    const auto chunks = training_.pipeline.chunks_of(stage);
    for (std::size_t i = 0; i < chunks.size(); ++i) trained_.weights[member][chunks[i]] = weights[i];
    trained_.agreements[member][stage] = agreement->statistics();
  }

  const DeviceTraining& training_;
  std::uint32_t members_;
  const GroupForm& form_;
  std::uint32_t stages_;
  host::SteadyClock clock_;
  SharedWatch watch_;
  std::deque<MeetingPlace> columns_;
  std::deque<MeetingPlace> groups_;
  std::vector<StageTasks> tasks_;
  std::vector<std::unique_ptr<WakeToCome[]>> wakes_;
  std::vector<std::unique_ptr<host::InProcessGroup>> channels_;
  GroupTrained trained_;
};

}  // namespace sluice::test
