#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "cuda/training_rank.hpp"
#include "forked_ranks.hpp"
#include "nccl/nccl_group.hpp"
#include "nccl/shared_group.hpp"
#include "sluice/agree/form.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/nccl/nccl_agreement.hpp"

/// Groups whose ranks are processes, and what becomes of the others when one of them is killed. The process
/// of the tests must not use CUDA itself.
namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMembers = 2;
constexpr int kWrongError = 3;
constexpr int kNoError = 4;
constexpr int kReported = 5;

/// What a rank's process ends with, after all of its device is gone.
int checked(int code) {
  const bool reported = fakecuda_take_reports != nullptr && fakecuda_take_reports() != 0;
  return code == 0 && reported ? kReported : code;
}

/// Some of the ranks, in this order. All ranks of the job gather at the same time.
class SomeRanks final : public process::Bootstrap {
 public:
  SomeRanks(process::Bootstrap& all, std::vector<std::uint32_t> ranks, std::uint32_t own)
      : all_(all), ranks_(std::move(ranks)), own_(own) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return own_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override {
    return static_cast<std::uint32_t>(ranks_.size());
  }
  [[nodiscard]] const std::string& host() const noexcept override { return all_.host(); }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    const std::vector<std::vector<std::byte>> all = all_.all_gather(own);
    std::vector<std::vector<std::byte>> some;
    for (const std::uint32_t rank : ranks_) some.push_back(all[rank]);
    return some;
  }

 private:
  process::Bootstrap& all_;
  std::vector<std::uint32_t> ranks_;
  std::uint32_t own_;
};

/// Nothing wakes a rank when a message comes: it looks.
class LookedAfter final : public Agreement {
 public:
  explicit LookedAfter(Agreement& agreement) : agreement_(agreement) {}

  void begin(const Iteration& iteration, const Arbiter& arbiter) override {
    agreement_.begin(iteration, arbiter);
  }
  void announce(std::span<const RunnableChange> changes) override { agreement_.announce(changes); }
  [[nodiscard]] std::optional<Task> poll(const Arbiter& arbiter, PassMask allowed) override {
    return agreement_.poll(arbiter, allowed);
  }
  [[nodiscard]] Time next_deadline() const override { return kAnyTime; }
  void device_idle(Time since) override { agreement_.device_idle(since); }
  [[nodiscard]] AgreementStatistics statistics() const override { return agreement_.statistics(); }

 private:
  Agreement& agreement_;
};

/// One rank's end of its group, over messages or, without a form, on the device.
struct GroupEnd {
  GroupEnd(std::optional<agree::Form> form, const StageTasks& tasks, agree::GroupChannel& channel,
           process::Bootstrap& group) {
    if (form) {
      agreement = agree::make_agreement(*form, tasks, channel, clock);
      return;
    }
    communicator = test::join_communicator(group, "the group of stage " + std::to_string(tasks.stage()));
    agreement = std::make_unique<NcclAgreement>(tasks, channel, clock, *communicator);
  }

  host::SteadyClock clock;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Agreement> agreement;
};

agree::ChannelNeeds needs(std::optional<agree::Form> form, const StageTasks& tasks) {
  return form ? agree::needs(*form, tasks) : NcclAgreement::needs();
}

/// A pipeline of groups, a process each rank.
class Grid {
 public:
  Grid(const Pipeline& pipeline, std::optional<agree::Form> form)
      : training(pipeline, {{0}, {1}, {2}}), pipeline_(pipeline), form_(form) {
    training.policy_of = [&](StageId stage) {
      return Policy::readiness(Hint::named("bf", pipeline_, stage));
    };
    training.settings.limit = pipeline.microbatches();
    training.settings.poll_interval = 20us;
    for (StageId stage = 0; stage < pipeline.stages(); ++stage)
      channels_.push_back(
          std::make_unique<test::SharedGroup>(kMembers, needs(form, StageTasks(pipeline, stage))));
  }

  [[nodiscard]] std::uint32_t ranks() const { return pipeline_.stages() * kMembers; }
  [[nodiscard]] StageId stage(std::uint32_t rank) const { return static_cast<StageId>(rank / kMembers); }

  /// @return the weights of the rank's chunks
  std::vector<double> run_rank(process::Bootstrap& bootstrap) const {
    cuda::use_device(0);
    const StageId own = stage(bootstrap.rank());
    const std::uint32_t member = bootstrap.rank() % kMembers;
    std::vector<std::uint32_t> in_group;
    for (std::uint32_t each = 0; each < kMembers; ++each) in_group.push_back(own * kMembers + each);
    std::vector<std::uint32_t> in_column;
    for (StageId each = 0; each < pipeline_.stages(); ++each) in_column.push_back(each * kMembers + member);
    SomeRanks group(bootstrap, in_group, member);
    SomeRanks column(bootstrap, in_column, own);
    const StageTasks tasks(pipeline_, own);
    const auto channel = channels_[own]->channel(member);
    GroupEnd end(form_, tasks, *channel, group);
    LookedAfter agreement(*end.agreement);
    test::SharedWatch watch;
    test::TrainingRank rank(training, column, watch, &agreement);
    rank.run();
    return rank.weights();
  }

  test::DeviceTraining training;

 private:
  const Pipeline& pipeline_;
  std::optional<agree::Form> form_;
  std::vector<std::unique_ptr<test::SharedGroup>> channels_;
};

using Forms = std::vector<std::optional<agree::Form>>;

class GroupProcesses : public ::testing::TestWithParam<std::optional<agree::Form>> {};

TEST_P(GroupProcesses, TrainWhatOneThreadDoes) {
  const Pipeline pipeline = Pipeline::chain(2, 6);
  const Grid grid(pipeline, GetParam());
  const test::SharedMapping shared(grid.ranks() * sizeof(double));
  double* const weights = shared.as<double>();
  test::ForkedRanks ranks(grid.ranks(), [&](process::Bootstrap& bootstrap) {
    weights[bootstrap.rank()] = grid.run_rank(bootstrap)[0];
    return checked(0);
  });
  for (const test::Ending& ending : ranks.wait()) EXPECT_EQ(ending.code, 0) << "signal " << ending.signal;
  const std::vector<double> expected = test::trained_by_one_thread(pipeline, grid.training.iterations);
  for (std::uint32_t rank = 0; rank < grid.ranks(); ++rank)
    EXPECT_EQ(weights[rank], expected[grid.stage(rank)]) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Of, GroupProcesses,
                         ::testing::ValuesIn(Forms{std::nullopt, agree::Form::Leader, agree::Form::FirstPick,
                                                   agree::Form::Bitmap}),
                         [](const auto& tested) {
                           if (!tested.param) return std::string("Nccl");
                           return std::string(*tested.param == agree::Form::Leader   ? "Leader"
                                              : *tested.param == agree::Form::Bitmap ? "Bitmap"
                                                                                     : "FirstPick");
                         });

/// Whatever it was doing, and wherever the others stood.
TEST(GroupProcessesFailure, AllEndWhenAMemberIsKilledInTheMiddle) {
  const Pipeline pipeline = Pipeline::chain(2, 6);
  Grid grid(pipeline, std::nullopt);
  grid.training.iterations.assign(100000, Iteration{});
  for (std::uint64_t i = 0; i < grid.training.iterations.size(); ++i) grid.training.iterations[i].index = i;
  constexpr std::uint32_t kKilled = 1;
  test::ForkedRanks ranks(grid.ranks(), [&](process::Bootstrap& bootstrap) {
    if (bootstrap.rank() == kKilled) {
      std::thread([] {
        std::this_thread::sleep_for(300ms);
        raise(SIGKILL);
      }).detach();
    }
    try {
      static_cast<void>(grid.run_rank(bootstrap));
    } catch (const Error& error) {
      std::fprintf(stderr, "rank %u: %s\n", bootstrap.rank(), error.what());
      return checked(0);
    }
    return kNoError;
  });
  const std::vector<test::Ending> endings = ranks.wait();
  for (std::uint32_t rank = 0; rank < endings.size(); ++rank) {
    if (rank == kKilled) {
      EXPECT_EQ(endings[rank].signal, SIGKILL);
    } else {
      EXPECT_EQ(endings[rank].code, 0) << "rank " << rank << ", signal " << endings[rank].signal;
    }
  }
}

/// A member's part until it fails: decisions for ever.
int agree_until_failure(const StageTasks& tasks, const Pipeline& pipeline, Agreement& agreement,
                        const std::vector<std::string>& words) {
  Arbiter arbiter(tasks, Hint::named("bf", pipeline, 0));
  const auto until = std::chrono::steady_clock::now() + 20s;
  try {
    for (std::uint64_t iteration = 0; std::chrono::steady_clock::now() < until; ++iteration) {
      arbiter.begin();
      agreement.begin({iteration}, arbiter);
      for (Microbatch m = 0; m < tasks.microbatches(); ++m) {
        const RunnableChange change{{m, 0, Pass::Forward}, true};
        arbiter.insert(change.task);
        agreement.announce({&change, 1});
      }
      for (Microbatch m = 0; m < tasks.microbatches() && std::chrono::steady_clock::now() < until;) {
        const auto task = agreement.poll(arbiter, kAllPasses);
        if (!task) continue;
        arbiter.decided(*task);
        ++m;
      }
    }
  } catch (const NcclError& error) {
    for (const std::string& word : words) {
      if (std::string(error.what()).find(word) != std::string::npos) continue;
      std::fprintf(stderr, "not in \"%s\": %s\n", error.what(), word.c_str());
      return kWrongError;
    }
    return 0;
  }
  return kNoError;
}

/// @param words of the error of each rank
void expect_error_of_others(Duration alive, const std::array<std::vector<std::string>, 3>& words) {
  const Pipeline pipeline = Pipeline::chain(2, 8);
  const StageTasks tasks(pipeline, 0);
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint32_t kKilled = 1;
  const test::SharedGroup channels(kRanks, NcclAgreement::needs());
  const auto part = [&](process::Bootstrap& bootstrap) {
    cuda::use_device(0);
    const auto channel = channels.channel(bootstrap.rank());
    GroupEnd end(std::nullopt, tasks, *channel, bootstrap);
    static_cast<void>(bootstrap.all_gather({}));
    if (bootstrap.rank() == kKilled) {
      if (alive == Duration{0}) raise(SIGKILL);
      std::thread([alive] {
        std::this_thread::sleep_for(alive);
        raise(SIGKILL);
      }).detach();
    }
    std::vector<std::string> expected = words[bootstrap.rank()];
    expected.push_back("the group of stage 0, rank " + std::to_string(bootstrap.rank()));
    return agree_until_failure(tasks, pipeline, *end.agreement, expected);
  };
  test::ForkedRanks ranks(kRanks, [&](process::Bootstrap& bootstrap) { return checked(part(bootstrap)); });
  const std::vector<test::Ending> endings = ranks.wait();
  EXPECT_EQ(endings[kKilled].signal, SIGKILL);
  for (const std::uint32_t rank : {0, 2}) {
    EXPECT_EQ(endings[rank].code, 0) << "rank " << rank << ", signal " << endings[rank].signal;
  }
}

TEST(GroupProcessesFailure, TheMemberThatDiedBeforeItCameIsNamed) {
  // The third may not have come yet either.
  expect_error_of_others(Duration{0}, {{{"attempt 1 waits for member 1", "ncclRemoteError"},
                                        {},
                                        {"attempt 1 waits for member ", "1: ncclRemoteError"}}});
}

TEST(GroupProcessesFailure, AMemberThatDiesInTheMiddleEndsTheOthers) {
  for (int time = 1; time <= 10; ++time)
    expect_error_of_others(time * 1ms, {{{"ncclRemoteError"}, {}, {"ncclRemoteError"}}});
}

}  // namespace
}  // namespace sluice::nccl
