#include "sluice/nccl/nccl_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../../fake_cuda/controls.hpp"
#include "../../fake_cuda/nccl_controls.hpp"
#include "hand_group.hpp"
#include "nccl/nccl_group.hpp"
#include "scenario.hpp"
#include "sluice/agree/messages.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"
#include "tasks.hpp"

namespace sluice::nccl {
namespace {

using namespace std::chrono_literals;
using test::backward;
using test::forward;
using test::weight_grad;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kNothing = std::nullopt;
constexpr Duration kLongest = 30s;

/// A group on the device by hand, all of its members in this thread.
class Group {
 public:
  explicit Group(std::uint32_t members, Pipeline pipeline = Pipeline::chain(2, 8, true),
                 AgreementOptions options = {})
      : communicators(members),
        hand(
            NcclAgreement::needs(), members,
            [&](test::HandGroup& group) {
              return test::make_nccl_agreements(group.tasks, group.channels, clock, communicators, options);
            },
            std::move(pipeline)) {
    hand.begin();
  }
  /// Also after an error, when members that share the device would wait for each other's reductions.
  ~Group() {
    if (fakecuda_recover != nullptr) fakecuda_recover();
    for (std::uint32_t member = 0; member < communicators.members(); ++member)
      communicators.of(member).abort();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] bool reduces(std::uint32_t member) const {
    return hand.agreements[member]->next_deadline() == kAnyTime;
  }
  [[nodiscard]] AgreementStatistics statistics(std::uint32_t member) const {
    return hand.agreements[member]->statistics();
  }
  /// Polls a member alone until it fails.
  [[nodiscard]] std::string failure_of(std::uint32_t member) {
    const Time until = clock.now() + kLongest;
    try {
      while (clock.now() < until) {
        if (hand.poll(member)) return "a decision";
        std::this_thread::sleep_for(100us);
      }
    } catch (const NcclError& error) {
      return error.what();
    }
    return "nothing";
  }

  host::SteadyClock clock;
  test::GroupCommunicators communicators;
  test::HandGroup hand;
};

TEST(NcclAgreement, DecidesTheBestThatAllHaveAtTheFirstAttempt) {
  Group group(3);
  group.hand.runnable(0, forward(2));
  group.hand.runnable(1, backward(1));
  group.hand.runnable(forward(4));
  group.hand.runnable(forward(5));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(4))));
  for (std::uint32_t member = 0; member < 3; ++member) {
    EXPECT_EQ(group.statistics(member).decisions, 1U);
    EXPECT_EQ(group.statistics(member).deferrals, 0U);
    EXPECT_EQ(group.statistics(member).picks_differed, 1U);
  }
}

TEST(NcclAgreement, NothingIsReducedBeforeAllMembersHaveCome) {
  Group group(2);
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_FALSE(group.reduces(0)) << "member 1 has not come";
  EXPECT_EQ(group.hand.poll(1), kNothing);
  EXPECT_TRUE(group.reduces(1));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(1))));
  EXPECT_FALSE(group.hand.under_way());
}

TEST(NcclAgreement, NothingIsReducedWhereTheMembersTasksLieApart) {
  Group group(2);
  group.hand.runnable(0, forward(1));
  group.hand.runnable(1, forward(2));
  for (int round = 0; round < 6; ++round) {
    for (std::uint32_t member = 0; member < 2; ++member) {
      EXPECT_EQ(group.hand.poll(member), kNothing);
      EXPECT_FALSE(group.reduces(member));
    }
  }
  EXPECT_EQ(group.statistics(0).deferrals, 1U);
  EXPECT_EQ(group.statistics(1).deferrals, 1U);
}

TEST(NcclAgreement, AMemberJoinsChangedOrNotAndWithNothing) {
  Group group(2);
  group.hand.runnable(0, forward(2));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(kNothing));
  EXPECT_EQ(group.statistics(1).deferrals, 1U);
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(kNothing));
  EXPECT_EQ(group.statistics(1).deferrals, 1U) << "nothing has changed";
  group.hand.runnable(1, forward(2));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(2))));
}

TEST(NcclAgreement, WhatChangesDuringAnAttemptIsTriedNext) {
  Group group(2);
  group.hand.runnable(0, forward(1));
  group.hand.runnable(0, forward(3));
  group.hand.runnable(1, forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  group.hand.runnable(0, forward(1), false);
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(1)))) << "was contributed";
  group.hand.runnable(1, forward(3));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(3))));
}

TEST(NcclAgreement, AMemberMayBeAnIterationAhead) {
  Group group(2);
  group.hand.begin(0, 1);
  group.hand.runnable(0, forward(2));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing) << "it waits for this one to begin";
  group.hand.begin(1, 1);
  group.hand.runnable(1, forward(2));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(2))));
}

/// The device's compute stream stands still meanwhile.
TEST(NcclAgreement, DecidesWhileATaskRuns) {
  if (fakecuda_hang == nullptr) GTEST_SKIP() << "needs the fake device";
  Group group(2);
  const cuda::DeviceMemory memory(8, "a task");
  const cuda::Stream compute = cuda::make_stream();
  fakecuda_hang(compute.get());
  cuda::check(cudaMemsetAsync(memory.data(), 0, memory.size(), compute.get()), "running a task");
  group.hand.runnable(forward(1));
  EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(1))));
  EXPECT_EQ(cudaStreamQuery(compute.get()), cudaErrorNotReady);
  fakecuda_resume(compute.get());
  cuda::check(cudaStreamSynchronize(compute.get()), "waiting for the task");
}

/// In the mode that forbids most while it goes on.
TEST(NcclAgreement, DisturbsNoCapture) {
  Group group(2);
  const cuda::DeviceMemory memory(8, "a task");
  const cuda::Stream captured = cuda::make_stream();
  cuda::check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal), "capturing");
  cuda::check(cudaMemsetAsync(memory.data(), 0, memory.size(), captured.get()), "capturing");
  for (Microbatch m = 0; m < 3; ++m) {
    group.hand.runnable(forward(m));
    EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(m))));
  }
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(captured.get(), &graph), cudaSuccess);
  const cuda::Graph owned(graph);
}

TEST(NcclAgreement, LeavesNothingOnTheDevice) {
  if (fakecuda_live == nullptr) GTEST_SKIP() << "needs the fake device";
  const auto live = [] {
    return fakecuda_live("allocations") + fakecuda_live("host allocations") + fakecuda_live("streams");
  };
  const std::size_t before = live();
  {
    Group group(2);
    group.hand.runnable(forward(1));
    EXPECT_THAT(group.hand.poll_all(), ::testing::Each(std::optional(forward(1))));
    EXPECT_GT(live(), before);
  }
  EXPECT_EQ(live(), before);
}

/// Side by side with the bitmap's, whatever the members have, allow and announce, also with several chunks.
TEST(NcclAgreement, DecidesAsTheBitmapDoes) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const test::Draw draw = test::seeded_draw(seed);
    const std::uint32_t members = draw(1, 3);
    const Pipeline pipeline =
        draw(0, 1) == 0 ? Pipeline::chain(2, 8, true) : Pipeline::interleaved(2, 2, 6, true);
    Group device(members, pipeline);
    test::HandGroup host(agree::Form::Bitmap, members, pipeline);
    host.begin();
    for (int step = 0; step < 40; ++step) {
      const Task task = host.tasks.task(static_cast<Pass>(draw(0, 2)), draw(0, host.tasks.size() - 1));
      for (std::uint32_t member = 0; member < members; ++member) {
        if (draw(0, 3) == 0) continue;
        const bool is = draw(0, 4) > 0;
        host.runnable(member, task, is);
        device.hand.runnable(member, task, is);
      }
      const auto allowed = static_cast<PassMask>(draw(1, kAllPasses));
      ASSERT_EQ(device.hand.poll_all(allowed), host.poll_all(allowed))
          << "seed " << seed << ", step " << step;
    }
    EXPECT_EQ(device.statistics(0).decisions, host.agreements[0]->statistics().decisions);
    EXPECT_EQ(device.statistics(0).attempts, host.agreements[0]->statistics().attempts);
    EXPECT_EQ(device.statistics(0).picks_differed, host.agreements[0]->statistics().picks_differed);
  }
}

TEST(NcclAgreement, RefusesAChannelOfAnotherGroup) {
  const Pipeline pipeline = Pipeline::chain(2, 8);
  const StageTasks tasks(pipeline, 0);
  const host::SteadyClock clock;
  host::InProcessGroup channels(std::vector<Wake*>(3), NcclAgreement::needs());
  test::GroupCommunicators communicators(2);
  try {
    const NcclAgreement agreement(tasks, channels.channel(0), clock, communicators.of(0));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.field(), "group");
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 of 2"), HasSubstr("member 0 of 3")));
  }
  EXPECT_THROW(NcclAgreement(tasks, channels.channel(1), clock, communicators.of(0)), ConfigError);
}

/// What member 1 might send.
struct Contribution {
  agree::ContributionMessage fields{{0, 1, 0, agree::MessageKind::Ranges, 0, 0, 0}, {}};
  std::uint32_t ranges[6] = {0, 8, 0, 8, 0, 8};
};

std::string refusal(const Contribution& contribution, std::size_t bytes = sizeof(Contribution)) {
  Group group(2);
  group.hand.runnable(0, forward(1));
  std::vector<std::byte> message(bytes);
  const auto all = std::as_bytes(std::span(&contribution, 1));
  std::copy_n(all.begin(), std::min(bytes, all.size()), message.begin());
  group.hand.channels.channel(1).send(0, message);
  try {
    for (int round = 0; round < 3; ++round) static_cast<void>(group.hand.poll(0));
  } catch (const ProtocolError& error) {
    EXPECT_EQ(group.communicators.of(0).get(), nullptr) << "nobody waits for it any more";
    return error.what();
  }
  return "accepted";
}

TEST(NcclAgreement, RefusesAContributionThatCannotBeMeant) {
  static_assert(sizeof(Contribution) == sizeof(agree::ContributionMessage) + 24);
  EXPECT_EQ(refusal({}), "accepted");
  EXPECT_THAT(refusal({}, sizeof(Contribution) - 1), HasSubstr("impossible length"));
  Contribution contribution;
  contribution.ranges[1] = 9;
  EXPECT_THAT(refusal(contribution), AllOf(HasSubstr("member 1"), HasSubstr("stage does not have")));
  contribution = {};
  contribution.ranges[4] = 3;
  contribution.ranges[5] = 2;
  EXPECT_THAT(refusal(contribution), HasSubstr("stage does not have"));
  contribution = {};
  contribution.fields.header.kind = agree::MessageKind::Bitmap;
  EXPECT_THAT(refusal(contribution), HasSubstr("another kind"));
  contribution = {};
  contribution.fields.header.number = 2;
  EXPECT_THAT(refusal(contribution), HasSubstr("impossible attempt"));
}

/// Any bytes of any length are refused, naming their sender, or taken for something legal.
RC_GTEST_PROP(NcclAgreementMessages, AnyBytesAreRefusedOrLegal, ()) {
  Contribution contribution;
  std::vector<std::byte> message(sizeof contribution);
  std::memcpy(message.data(), &contribution, sizeof contribution);
  for (int changes = *rc::gen::inRange(0, 6); changes-- > 0;)
    message[*rc::gen::inRange<std::size_t>(0, message.size())] =
        static_cast<std::byte>(*rc::gen::inRange(0, 256));
  const std::size_t bytes = *rc::gen::inRange<std::size_t>(0, 2 * message.size());
  std::memcpy(&contribution, message.data(), sizeof contribution);
  const std::string said = refusal(contribution, std::min(bytes, message.size()));
  RC_ASSERT(said == "accepted" || said.find("member 1") != std::string::npos);
}

AgreementOptions impatient() {
  AgreementOptions options;
  options.health_interval = 1ms;
  options.patience = 200ms;
  return options;
}

TEST(NcclAgreement, AMemberThatIsGoneBeforeItComesIsNamed) {
  Group group(3, Pipeline::chain(2, 8, true), impatient());
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing);
  group.communicators.of(2).abort();
  EXPECT_THAT(group.failure_of(0), AllOf(HasSubstr("the group, rank 0"), HasSubstr("attempt 1"),
                                         HasSubstr("waits for member 2"), HasSubstr("ncclRemoteError")));
  EXPECT_EQ(group.communicators.of(0).get(), nullptr) << "aborted";
  EXPECT_THAT(group.failure_of(1), HasSubstr("the group, rank 1"));
}

TEST(NcclAgreement, AMemberThatIsGoneDuringTheReductionEndsIt) {
  Group group(2, Pipeline::chain(2, 8, true), impatient());
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing);
  ASSERT_TRUE(group.reduces(1));
  group.communicators.of(0).abort();
  EXPECT_THAT(group.failure_of(1),
              AllOf(HasSubstr("the group, rank 1"), HasSubstr("waits for the reduction")));
}

/// As where the peer's device stands still, which nobody is told of.
TEST(NcclAgreement, AReductionThatNeverEndsIsGivenUp) {
  Group group(2, Pipeline::chain(2, 8, true), impatient());
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing);
  ASSERT_TRUE(group.reduces(1));
  EXPECT_THAT(group.failure_of(1),
              AllOf(HasSubstr("the group, rank 1"), HasSubstr("waits for the reduction")));
}

TEST(NcclAgreement, EndsInTheMiddleOfAReductionWithoutWaiting) {
  Group group(2);
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing);
  ASSERT_TRUE(group.reduces(1));
  group.hand.agreements[1].reset();
  EXPECT_EQ(group.communicators.of(1).get(), nullptr);
  group.communicators.of(0).abort();
}

TEST(NcclAgreement, ACommunicatorThatBreaksIsAnError) {
  if (fakecuda_nccl_break == nullptr) GTEST_SKIP() << "needs the fake device";
  Group group(2, Pipeline::chain(2, 8, true), impatient());
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  fakecuda_nccl_break(nullptr, ncclSystemError);
  EXPECT_THAT(group.failure_of(0), AllOf(HasSubstr("waits for member 1"), HasSubstr("ncclSystemError")));
}

TEST(NcclAgreement, AReductionThatIsRefusedIsAnError) {
  if (fakecuda_nccl_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  Group group(2);
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  fakecuda_nccl_fail("ncclAllReduce", 1, ncclInternalError);
  EXPECT_THAT(group.failure_of(1),
              AllOf(HasSubstr("the group, rank 1"), HasSubstr("reducing"), HasSubstr("ncclInternalError")));
}

TEST(NcclAgreement, AKernelThatIsNotLaunchedIsAnError) {
  if (fakecuda_fail == nullptr) GTEST_SKIP() << "needs the fake device";
  Group group(2);
  group.hand.runnable(forward(1));
  EXPECT_EQ(group.hand.poll(0), kNothing);
  EXPECT_EQ(group.hand.poll(1), kNothing);
  fakecuda_fail("cudaLaunchKernelExC", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THROW(static_cast<void>(group.hand.poll_all()), cuda::CudaError);
  EXPECT_TRUE(group.communicators.of(0).get() == nullptr || group.communicators.of(1).get() == nullptr);
}

}  // namespace
}  // namespace sluice::nccl
