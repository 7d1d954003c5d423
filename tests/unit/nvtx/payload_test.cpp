#include "sluice/nvtx/payload.hpp"

#include <gtest/gtest.h>

namespace sluice::nvtx {
namespace {

TEST(Payload, KeepsEveryField) {
  const Payload payload = Payload::of(0xabcdef, 0x1234, 0x5678, 0x9a);
  EXPECT_EQ(payload.packed(), 0x9a'5678'1234'abcdefU);
  EXPECT_EQ(Payload::unpacked(payload.packed()), payload);
}

TEST(Payload, SaysThatASlotDoesNotFit) {
  EXPECT_EQ(Payload::of(0, 0, kNoSlot, 0).slot, Payload::kOtherSlot);
  EXPECT_EQ(Payload::of(0, 0, 0x10000, 0).slot, Payload::kOtherSlot);
  EXPECT_EQ(Payload::of(0, 0, 0xfffe, 0).slot, 0xfffe);
}

TEST(Payload, KeepsTheLowBitsOfTheIteration) {
  EXPECT_EQ(Payload::of(0, 0, 0, 0x7fff'ffff'ffff'ff01U).iteration, 1);
}

TEST(Payload, FieldsDoNotSpillIntoEachOther) {
  EXPECT_EQ(Payload::unpacked(Payload::of(Payload::kMostMicrobatches - 1, 0, 0, 0).packed()),
            Payload::of(Payload::kMostMicrobatches - 1, 0, 0, 0));
  EXPECT_EQ(Payload::unpacked(Payload::of(0, 0xffff, 0, 0).packed()), Payload::of(0, 0xffff, 0, 0));
  EXPECT_EQ(Payload::unpacked(Payload::of(0, 0, kNoSlot, 0).packed()), Payload::of(0, 0, kNoSlot, 0));
  EXPECT_EQ(Payload::unpacked(Payload::of(0, 0, 0, 0xff).packed()), Payload::of(0, 0, 0, 0xff));
}

TEST(DecisionPayload, KeepsEveryField) {
  const DecisionPayload payload{{0x1122, 0x3344, 0x5566}, 0x7788};
  EXPECT_EQ(payload.packed(), 0x7788'5566'3344'1122U);
  EXPECT_EQ(DecisionPayload::unpacked(payload.packed()), payload);
}

TEST(DecisionPayload, ClampsCounts) {
  EXPECT_EQ(DecisionPayload::clamped(0xffff), 0xffff);
  EXPECT_EQ(DecisionPayload::clamped(0x10000), 0xffff);
  EXPECT_EQ(DecisionPayload::clamped(7), 7);
}

}  // namespace
}  // namespace sluice::nvtx
