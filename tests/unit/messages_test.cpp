#include "sluice/agree/messages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hand_group.hpp"
#include "sluice/error.hpp"
#include "tasks.hpp"

/// What no member can have meant is refused, and the member named.
namespace sluice::agree {
namespace {

using test::forward;
using test::HandGroup;

template <typename Message>
std::vector<std::byte> bytes_of(const Message& message, std::size_t more = 0) {
  std::vector<std::byte> bytes(sizeof message + more);
  std::memcpy(bytes.data(), &message, sizeof message);
  return bytes;
}

/// A group whose other member is written by hand.
struct Forged {
  Forged(Form of, std::uint32_t receiver) : form(of), to(receiver), group(of, 2) { group.begin(4); }

  /// What the receiver says of the message.
  [[nodiscard]] std::string refusal(std::span<const std::byte> message) {
    group.channels.channel(1 - to).send(to, message);
    try {
      (void)group.poll(to);
    } catch (const ProtocolError& error) {
      return error.what();
    }
    return "accepted";
  }

  Form form;
  std::uint32_t to;
  HandGroup group;
};

Header header_of(MessageKind kind) { return {4, 1, 0, kind, 0, 0, 0}; }

AskMessage good_ask() {
  AskMessage ask{};
  ask.header = header_of(MessageKind::Ask);
  ask.header.flag = 1;
  ask.header.changes = 1;
  ask.ask = AskFields::of({kAllPasses, false, {}, forward(3)});
  ask.changes[0] = TaskField::of(RunnableChange{forward(3), true});
  return ask;
}

DecisionMessage good_decision() {
  DecisionMessage decision{};
  decision.header = header_of(MessageKind::Decision);
  decision.task = TaskField::of(RunnableChange{forward(3), true});
  return decision;
}

ContributionMessage good_contribution(MessageKind kind) {
  ContributionMessage contribution{};
  contribution.header = header_of(kind);
  contribution.ask = AskFields::of({kAllPasses, false, {}, forward(3)});
  return contribution;
}

std::size_t bitmap_bytes() {
  const Pipeline pipeline = Pipeline::chain(2, HandGroup::kMicrobatches);
  return TaskSet::words(StageTasks(pipeline, 0)) * sizeof(std::uint64_t);
}

void expect_refused(const std::string& refusal, const std::string& member, const std::string& reason) {
  EXPECT_NE(refusal.find("stage 0"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("member " + member), std::string::npos) << refusal;
  EXPECT_NE(refusal.find(reason), std::string::npos) << refusal;
}

TEST(Messages, AnAskThatCannotBeMeantIsRefused) {
  ASSERT_EQ(Forged(Form::Leader, 0).refusal(bytes_of(good_ask())), "accepted");
  const std::vector<std::pair<std::function<void(AskMessage&)>, const char*>> mistakes = {
      {[](AskMessage& m) { m.header.kind = MessageKind::Bitmap; }, "another kind"},
      {[](AskMessage& m) { m.header.iteration = 6; }, "impossible iteration"},
      {[](AskMessage& m) { m.header.iteration = 3; }, "impossible iteration"},
      {[](AskMessage& m) { m.header.number = 2; }, "impossible decision"},
      {[](AskMessage& m) { m.header.number = 0; }, "impossible"},
      {[](AskMessage& m) { m.header.flag = 2; }, "out of range"},
      {[](AskMessage& m) { m.header.changes = AskMessage::kMostChanges + 1; }, "out of range"},
      {[](AskMessage& m) { m.ask.allowed = kAllPasses + 1; }, "out of range"},
      {[](AskMessage& m) { m.ask.focusing = 2; }, "out of range"},
      {[](AskMessage& m) { m.ask.pick.flag = 3; }, "out of range"},
      {[](AskMessage& m) { m.ask.pick.chunk = 1; }, "stage does not have"},
      {[](AskMessage& m) {
         m.ask.focus = {99, 0, 0, 1};
       },
       "stage does not have"},
      {[](AskMessage& m) { m.changes[0].microbatch = 8; }, "stage does not have"},
      {[](AskMessage& m) { m.changes[0].chunk = 77; }, "stage does not have"},
      {[](AskMessage& m) { m.changes[0].pass = 3; }, "stage does not have"},
      {[](AskMessage& m) { m.changes[0].flag = 2; }, "out of range"},
  };
  for (const auto& [mistake, reason] : mistakes) {
    AskMessage message = good_ask();
    mistake(message);
    expect_refused(Forged(Form::Leader, 0).refusal(bytes_of(message)), "1", reason);
  }
}

TEST(Messages, ADecisionThatCannotBeMeantIsRefused) {
  const auto follower = [] {
    Forged forged(Form::Leader, 1);
    forged.group.runnable(1, forward(3));
    EXPECT_EQ(forged.group.poll(1), std::nullopt) << "asks";
    return forged.refusal(bytes_of(good_decision()));
  };
  ASSERT_EQ(follower(), "accepted");
  const std::vector<std::pair<std::function<void(DecisionMessage&)>, const char*>> mistakes = {
      {[](DecisionMessage& m) { m.header.kind = MessageKind::Ask; }, "another kind"},
      {[](DecisionMessage& m) { m.header.iteration = 5; }, "impossible iteration"},
      {[](DecisionMessage& m) { m.header.number = 2; }, "impossible decision"},
      {[](DecisionMessage& m) { m.header.flag = 9; }, "out of range"},
      {[](DecisionMessage& m) { m.task.microbatch = 4; }, "not runnable here"},
      {[](DecisionMessage& m) { m.task.microbatch = 8; }, "stage does not have"},
      {[](DecisionMessage& m) { m.task.pass = 200; }, "stage does not have"},
  };
  for (const auto& [mistake, reason] : mistakes) {
    Forged forged(Form::Leader, 1);
    forged.group.runnable(1, forward(3));
    (void)forged.group.poll(1);
    DecisionMessage message = good_decision();
    mistake(message);
    expect_refused(forged.refusal(bytes_of(message)), "0", reason);
  }
  expect_refused(Forged(Form::Leader, 1).refusal(bytes_of(good_decision())), "0", "impossible decision");
}

TEST(Messages, ADecisionComesFromTheLeaderOnly) {
  HandGroup group(Form::Leader, 3);
  group.begin(4);
  group.runnable(1, forward(3));
  EXPECT_EQ(group.poll(1), std::nullopt);
  group.channels.channel(2).send(1, bytes_of(good_decision()));
  try {
    (void)group.poll(1);
    FAIL();
  } catch (const ProtocolError& error) {
    expect_refused(error.what(), "2", "only the leader may send");
  }
}

TEST(Messages, AContributionThatCannotBeMeantIsRefused) {
  const std::vector<std::pair<std::function<void(ContributionMessage&)>, const char*>> mistakes = {
      {[](ContributionMessage& m) { m.header.kind = MessageKind::Decision; }, "another kind"},
      {[](ContributionMessage& m) { m.header.iteration = 3; }, "impossible iteration"},
      {[](ContributionMessage& m) { m.header.iteration = 6; }, "impossible iteration"},
      {[](ContributionMessage& m) { m.header.number = 0; }, "came twice"},
      {[](ContributionMessage& m) { m.header.number = 2; }, "impossible attempt"},
      {[](ContributionMessage& m) { m.ask.allowed = 0xff; }, "out of range"},
      {[](ContributionMessage& m) { m.ask.pick.microbatch = 8; }, "stage does not have"},
  };
  for (const auto& [form, kind, more] : {std::tuple(Form::FirstPick, MessageKind::FirstPick, std::size_t{0}),
                                         std::tuple(Form::Bitmap, MessageKind::Bitmap, bitmap_bytes())}) {
    ASSERT_EQ(Forged(form, 0).refusal(bytes_of(good_contribution(kind), more)), "accepted");
    for (const auto& [mistake, reason] : mistakes) {
      ContributionMessage message = good_contribution(kind);
      mistake(message);
      expect_refused(Forged(form, 0).refusal(bytes_of(message, more)), "1", reason);
    }
    Forged twice(form, 0);
    const auto message = bytes_of(good_contribution(kind), more);
    ASSERT_EQ(twice.refusal(message), "accepted");
    const std::string again = twice.refusal(message);
    // A bitmap joins at once, so that the attempt is over.
    expect_refused(again, "1", "came twice");
  }
}

TEST(Messages, ABitmapHoldsTasksOfTheStageOnly) {
  const std::size_t more = bitmap_bytes();
  std::vector<std::byte> message = bytes_of(good_contribution(MessageKind::Bitmap), more);
  message.back() = std::byte{0x80};
  expect_refused(Forged(Form::Bitmap, 0).refusal(message), "1", "stage does not have");
}

TEST(Messages, AnIterationThatBeginsFitsWhatWasHeld) {
  for (const Form form : kForms) {
    HandGroup group(form, 2);
    group.begin(4);
    group.begin(1, 5);
    group.runnable(1, forward(3));
    EXPECT_EQ(group.poll(1), std::nullopt);
    EXPECT_EQ(group.poll(0), std::nullopt);
    EXPECT_THROW(group.begin(0, 7), ProtocolError) << name(form);
  }
}

/// Any bytes of any length are refused or taken for something legal; nothing else happens.
RC_GTEST_PROP(Messages, AnyBytesAreRefusedOrLegal, ()) {
  const Form form = *rc::gen::elementOf(kForms);
  const auto to = *rc::gen::inRange<std::uint32_t>(0, 2);
  Forged forged(form, to);
  if (*rc::gen::arbitrary<bool>()) forged.group.runnable(to, forward(3));
  std::vector<std::byte> message;
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      message = bytes_of(good_ask());
      break;
    case 1:
      message = bytes_of(good_decision());
      break;
    case 2:
      message = bytes_of(good_contribution(MessageKind::FirstPick));
      break;
    default:
      message = bytes_of(good_contribution(MessageKind::Bitmap), bitmap_bytes());
      break;
  }
  const auto changes = *rc::gen::inRange(0, 6);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, message.size());
    message[at] = static_cast<std::byte>(*rc::gen::inRange(0, 256));
  }
  message.resize(std::min(message.size(), *rc::gen::inRange<std::size_t>(0, 200)));
  message.resize(std::min(message.size(), needs(form, forged.group.tasks).longest));
  const std::string said = forged.refusal(message);
  RC_ASSERT(said == "accepted" || said.find("member " + std::to_string(1 - to)) != std::string::npos);
}

}  // namespace
}  // namespace sluice::agree
