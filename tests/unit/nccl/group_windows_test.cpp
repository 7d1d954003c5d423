#include "../../../engine/src/nccl/group_windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../../../engine/src/nccl/hint_order.hpp"
#include "scenario.hpp"
#include "sluice/agree/common_tasks.hpp"
#include "sluice/pipeline.hpp"
#include "tasks.hpp"

/// The windows without a device: what is reduced and found in them is what the arbiter chooses among all
/// tasks that the members have in common.
namespace sluice::nccl {
namespace {

using test::backward;
using test::Draw;
using test::forward;
using test::weight_grad;

/// The members of a group and what each would contribute.
class Members {
 public:
  Members(const StageTasks& tasks, const Arbiter& arbiter, std::uint32_t members)
      : asks(members, agree::Ask{kAllPasses, false, {}, {}}),
        common_(tasks, members),
        arbiter_(arbiter),
        orders_(members, HintOrder(tasks)) {
    common_.begin(arbiter);
    for (HintOrder& order : orders_) order.begin(arbiter.hint());
  }

  void set(std::uint32_t member, const Task& task, bool runnable) {
    common_.set(member, task, runnable);
    orders_[member].set(task, runnable);
  }
  [[nodiscard]] std::optional<Task> expected() { return common_.candidate(asks); }
  [[nodiscard]] std::optional<Task> chosen() {
    look();
    std::vector<std::uint8_t> reduced(windows.bytes(), 0xff);
    for (const HintOrder& order : orders_) {
      std::vector<std::uint8_t> bytes(windows.bytes());
      windows.gather(order, order.bytes(), bytes);
      for (std::size_t i = 0; i < bytes.size(); ++i) reduced[i] = std::min(reduced[i], bytes[i]);
    }
    return windows.choose(arbiter_, kernels::firsts_of_share(reduced.data(), windows.windows(), 0, 1));
  }
  void decided(const Task& task) {
    common_.decided(task);
    arbiter_.decided(task);
    for (HintOrder& order : orders_) order.decided(task);
  }

  void look() {
    RankRanges ranges = orders_[0].ranges();
    for (const HintOrder& order : orders_) ranges = overlap(ranges, order.ranges());
    windows.look(arbiter_, agree::focus_group(arbiter_, asks), orders_[0], ranges);
  }

  std::vector<agree::Ask> asks;
  GroupWindows windows;

 private:
  agree::CommonTasks common_;
  Arbiter arbiter_;
  std::vector<HintOrder> orders_;
};

Hint draw_hint(const Draw& draw, const Pipeline& pipeline) {
  if (draw(0, 4) == 0) {
    std::array<std::vector<Task>, Hint::kClasses> classes;
    const StageTasks tasks(pipeline, 0);
    const std::uint32_t cls[] = {draw(0, 2), draw(0, 2), draw(0, 2)};
    for (std::uint32_t index = tasks.size(); index-- > 0;) {
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
        classes[cls[static_cast<std::size_t>(pass)]].push_back(tasks.task(pass, index));
    }
    const RoundRule rule = draw(0, 1) == 0 ? RoundRule::Rounds : RoundRule::Priority;
    return Hint("drawn", pipeline, 0, rule, classes);
  }
  const auto names = Hint::names();
  return Hint::named(names[draw(0, static_cast<std::uint32_t>(names.size()) - 1)], pipeline, 0);
}

Task draw_task(const Draw& draw, const StageTasks& tasks) {
  return tasks.task(static_cast<Pass>(draw(0, 2)), draw(0, tasks.size() - 1));
}

void draw_asks(const Draw& draw, const StageTasks& tasks, std::vector<agree::Ask>& asks) {
  const std::optional<Task> focus = draw(0, 4) == 0 ? std::nullopt : std::optional(draw_task(draw, tasks));
  const bool any_focus = draw(0, 2) == 0;
  for (agree::Ask& ask : asks) {
    ask.allowed = static_cast<PassMask>(draw(0, 2) == 0 ? draw(0, kAllPasses) : kAllPasses);
    ask.focusing = any_focus && draw(0, 1) == 0;
    ask.focus = ask.focusing ? focus : std::nullopt;
  }
}

/// @return how often something was chosen
std::uint32_t check_choices(const Draw& draw) {
  const Pipeline pipeline =
      draw(0, 1) == 0 ? Pipeline::chain(2, draw(1, 9), true) : Pipeline::interleaved(2, 2, draw(1, 6), true);
  const StageTasks tasks(pipeline, 0);
  const PassMask passes = draw(0, 1) == 0 ? kAllPasses : mask_of(Pass::Forward) | mask_of(Pass::Backward);
  const std::uint32_t count = draw(1, 4);
  Members members(tasks, Arbiter(tasks, draw_hint(draw, pipeline), passes), count);
  const std::uint32_t density = draw(1, 9);
  std::uint32_t choices = 0;
  for (std::uint32_t step = 0; step < 3 * tasks.size(); ++step) {
    for (std::uint32_t change = draw(0, 2 * density); change-- > 0;) {
      const Task task = draw_task(draw, tasks);
      if (draw(0, 3) == 0) {
        members.set(draw(0, count - 1), task, draw(0, 2) > 0);
      } else {
        for (std::uint32_t member = 0; member < count; ++member) members.set(member, task, true);
      }
    }
    draw_asks(draw, tasks, members.asks);
    const std::optional<Task> expected = members.expected();
    EXPECT_EQ(members.chosen(), expected);
    EXPECT_EQ(members.chosen(), expected) << "choosing changes nothing";
    if (!expected) continue;
    members.decided(*expected);
    ++choices;
  }
  return choices;
}

TEST(GroupWindows, GiveWhatTheArbiterWouldChooseAmongAllCommonTasks) {
  constexpr std::uint64_t kSeeds = 2000;
  std::uint64_t choices = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    choices += check_choices(test::seeded_draw(seed));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(choices, 5 * kSeeds);
}

class GroupWindowsTest : public ::testing::Test {
 protected:
  void on_both(const Task& task) {
    for (std::uint32_t member = 0; member < 2; ++member) members.set(member, task, true);
  }

  Pipeline pipeline = Pipeline::chain(2, 8, true);
  StageTasks tasks{pipeline, 0};
  Members members{tasks, Arbiter(tasks, Hint::named("bf", pipeline, 0)), 2};
};

TEST_F(GroupWindowsTest, ReachAsFarAsTheMembersOverlap) {
  for (const Microbatch m : {1, 2, 3, 4}) members.set(0, forward(m), true);
  for (const Microbatch m : {3, 4, 5}) members.set(1, forward(m), true);
  members.look();
  EXPECT_EQ(members.windows.bytes(), 2U);
  members.set(0, forward(6), true);
  members.look();
  EXPECT_EQ(members.windows.bytes(), 3U);
}

TEST_F(GroupWindowsTest, AreEmptyWhereNothingOverlaps) {
  members.set(0, forward(1), true);
  members.set(1, forward(2), true);
  members.set(1, backward(1), true);
  members.look();
  EXPECT_EQ(members.windows.bytes(), 0U);
  EXPECT_EQ(members.chosen(), std::nullopt);
}

TEST_F(GroupWindowsTest, LeaveOutWhatNotAllAllow) {
  on_both(forward(1));
  on_both(backward(1));
  on_both(backward(2));
  members.asks[1].allowed = mask_of(Pass::Backward);
  members.look();
  EXPECT_EQ(members.windows.bytes(), 2U);
}

TEST_F(GroupWindowsTest, InFocusHoldTheFocusAndTheWeightGradients) {
  for (Microbatch m = 0; m < 5; ++m) on_both(forward(m));
  on_both(weight_grad(1));
  on_both(weight_grad(2));
  members.asks[0].focusing = true;
  members.asks[0].focus = forward(3);
  EXPECT_EQ(members.chosen(), forward(3));
  EXPECT_EQ(members.windows.bytes(), 3U);
  members.asks[0].focus = backward(0);
  EXPECT_EQ(members.chosen(), weight_grad(1));
  EXPECT_EQ(members.windows.bytes(), 2U);
}

}  // namespace
}  // namespace sluice::nccl
