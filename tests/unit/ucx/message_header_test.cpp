#include "sluice/ucx/message_header.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "sluice/error.hpp"

namespace sluice::ucx {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kDirectionAt = 44;

MessageHeader some_header(std::uint32_t tensors) {
  return {0x123456789abcdef0, 7, 3, {99, 5, 2, Direction::Gradient}, 42, tensors};
}

TensorShape shape(std::vector<std::int64_t> extents, std::uint8_t bits = 32) {
  TensorShape shape;
  shape.dtype_code = 2;
  shape.dtype_bits = bits;
  shape.rank = static_cast<std::uint8_t>(extents.size());
  std::copy(extents.begin(), extents.end(), shape.extent);
  return shape;
}

std::vector<std::byte> encoded(const std::vector<TensorShape>& shapes) {
  std::vector<std::byte> bytes;
  encode(some_header(static_cast<std::uint32_t>(shapes.size())), shapes, bytes);
  return bytes;
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    std::vector<TensorShape> shapes;
    decode_shapes(decode(bytes), bytes, shapes);
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return {};
}

TEST(MessageHeader, ComesBackAsItWasWritten) {
  const std::vector<TensorShape> shapes = {shape({4, 64, 96}), shape({}), shape({0, 7}, 8),
                                           shape({1, 2, 3, 4, 5, 6, 7, 8}, 64)};
  const std::vector<std::byte> bytes = encoded(shapes);
  const MessageHeader header = decode(bytes);
  EXPECT_EQ(header, some_header(4));
  std::vector<TensorShape> read = {shape({1})};
  EXPECT_EQ(decode_shapes(header, bytes, read), 4U * 64 * 96 * 4 + 4 + 0 + 40320 * 8);
  EXPECT_EQ(read, shapes);
}

TEST(MessageHeader, TakesNoMoreRoomThanItSays) {
  EXPECT_EQ(encoded({}).size(), kHeaderBytes);
  EXPECT_EQ(encoded({shape({1, 1, 1, 1, 1, 1, 1, 1})}).size(), kHeaderBytes + kTensorBytes);
  EXPECT_EQ(encoded({shape({3})}).size(), kHeaderBytes + 12);
}

TEST(MessageHeader, RefusesWhatIsTooShortForIt) {
  const std::vector<std::byte> bytes = encoded({});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THAT(refusal(std::span(bytes).first(length)), HasSubstr("header has " + std::to_string(length)));
}

TEST(MessageHeader, RefusesWhatIsNotOfSluice) {
  std::vector<std::byte> bytes = encoded({});
  bytes[0] ^= std::byte{1};
  EXPECT_THAT(refusal(bytes), HasSubstr("not of Sluice"));
}

TEST(MessageHeader, RefusesAnotherVersion) {
  std::vector<std::byte> bytes = encoded({});
  bytes[kVersionAt] = std::byte{9};
  EXPECT_THAT(refusal(bytes), HasSubstr("version 9"));
}

TEST(MessageHeader, RefusesADirectionThatIsNone) {
  std::vector<std::byte> bytes = encoded({});
  bytes[kDirectionAt] = std::byte{2};
  EXPECT_THAT(refusal(bytes), HasSubstr("rank 3: a message of direction 2"));
}

TEST(MessageHeader, RefusesTensorsThatAreCutShort) {
  const std::vector<std::byte> bytes = encoded({shape({2, 3}), shape({4})});
  for (std::size_t length = kHeaderBytes; length < bytes.size(); ++length)
    EXPECT_THAT(refusal(std::span(bytes).first(length)), HasSubstr("ends before its tensors"));
}

TEST(MessageHeader, RefusesBytesBehindTheTensors) {
  std::vector<std::byte> bytes = encoded({shape({2, 3})});
  bytes.push_back(std::byte{0});
  EXPECT_THAT(refusal(bytes), HasSubstr("longer than its tensors"));
}

TEST(MessageHeader, RefusesImpossibleTensors) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(refusal(encoded({shape({4, -1})})), HasSubstr("negative extent"));
  EXPECT_THAT(refusal(encoded({shape({kHuge})})), HasSubstr("no memory could hold"));
  EXPECT_THAT(refusal(encoded({shape({1L << 40, 1L << 40})})), HasSubstr("no memory could hold"));
  EXPECT_THAT(refusal(encoded({shape({4}, 0)})), HasSubstr("without an element type"));
  EXPECT_THAT(refusal(encoded({shape({kHuge}, 8), shape({kHuge}, 8), shape({kHuge}, 8)})),
              HasSubstr("no memory could hold"));
  std::vector<std::byte> bytes = encoded({shape({1})});
  bytes[kHeaderBytes + 2] = std::byte{9};
  EXPECT_THAT(refusal(bytes), HasSubstr("too many dimensions"));
}

TEST(MessageHeader, NamesTheMessageInWhatItRefuses) {
  EXPECT_THAT(refusal(encoded({shape({-1})})), HasSubstr("gradient of edge 2, microbatch 5, iteration 99"));
}

RC_GTEST_PROP(MessageHeader, AnyBytesAreReadOrRefused,
              (std::vector<std::uint8_t> tail, std::uint8_t tensors)) {
  std::vector<std::byte> bytes = encoded({});
  bytes[40] = std::byte{tensors};
  for (const std::uint8_t each : tail) bytes.push_back(std::byte{each});
  std::vector<TensorShape> shapes;
  try {
    const MessageHeader header = decode(bytes);
    decode_shapes(header, bytes, shapes);
    RC_ASSERT(shapes.size() == tensors);
  } catch (const ProtocolError&) {
    RC_ASSERT(!tail.empty() || tensors > 0);
  }
}

TEST(ChannelHeader, ComesBackAsItWasWritten) {
  const ChannelHeader header{11, 12, 13, 0xfedcba9876543210};
  std::array<std::byte, kChannelHeaderBytes> bytes{};
  encode(header, bytes);
  EXPECT_EQ(decode_channel(bytes), header);
}

TEST(ChannelHeader, RefusesAnotherLengthMagicOrVersion) {
  std::array<std::byte, kChannelHeaderBytes + 1> bytes{};
  const auto header = std::span(bytes).first<kChannelHeaderBytes>();
  encode(ChannelHeader{}, header);
  EXPECT_THROW((void)decode_channel(bytes), ProtocolError);
  EXPECT_THROW((void)decode_channel(header.first(kChannelHeaderBytes - 1)), ProtocolError);
  EXPECT_THROW((void)decode_channel({}), ProtocolError);
  for (const std::size_t at : {std::size_t{0}, kVersionAt}) {
    bytes[at] ^= std::byte{0xff};
    EXPECT_THROW((void)decode_channel(header), ProtocolError);
    bytes[at] ^= std::byte{0xff};
  }
}

}  // namespace
}  // namespace sluice::ucx
