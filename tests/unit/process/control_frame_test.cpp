#include "sluice/process/control_frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::process {
namespace {

using namespace std::chrono_literals;

Frame frame_of(const Bytes& bytes) {
  FrameReader reader;
  reader.append(bytes);
  return reader.next().value();
}

Bytes blob(std::size_t size) { return Bytes(size, std::byte{0x5a}); }

TEST(ControlFrame, EveryKindComesBackAsItWas) {
  const Hello hello = decode_hello(frame_of(encode(Hello{0x0123456789abcdef, 7})));
  EXPECT_EQ(hello.token, 0x0123456789abcdef);
  EXPECT_EQ(hello.rank, 7);
  const Heartbeat heartbeat = decode_heartbeat(frame_of(encode(Heartbeat{123456789ns, true})));
  EXPECT_EQ(heartbeat.progress, 123456789ns);
  EXPECT_TRUE(heartbeat.inside);
  const Gather gather = decode_gather(frame_of(encode_gather(9, blob(3))));
  EXPECT_EQ(gather.sequence, 9);
  EXPECT_EQ(gather.blob, blob(3));
  const Gathered gathered = decode_gathered(frame_of(encode(Gathered{4, {blob(2), {}, blob(70000)}})), 3);
  EXPECT_EQ(gathered.sequence, 4);
  EXPECT_EQ(gathered.blobs, (std::vector<Bytes>{blob(2), {}, blob(70000)}));
  const Failure failure = decode_failure(frame_of(encode(Failure{Failure::Kind::Silent, 2, "gone"})), 3);
  EXPECT_EQ(failure.kind, Failure::Kind::Silent);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.cause, "gone");
  EXPECT_EQ(decode_ping(frame_of(encode(Ping{-5ns}))).sent, -5ns);
  const Pong pong = decode_pong(frame_of(encode(Pong{1ns, 2ns})));
  EXPECT_EQ(pong.sent, 1ns);
  EXPECT_EQ(pong.there, 2ns);
  EXPECT_EQ(decode_report(frame_of(encode_report("{}"))), "{}");
  EXPECT_EQ(frame_of(encode(FrameType::Goodbye)).type, FrameType::Goodbye);
}

TEST(ControlFrame, ATooLongCauseIsCut) {
  const Failure failure{Failure::Kind::Failed, 0, std::string(kLongestCause + 100, 'x')};
  EXPECT_EQ(decode_failure(frame_of(encode(failure)), 1).cause.size(), kLongestCause);
}

TEST(ControlFrame, FramesAreFoundHoweverTheBytesCome) {
  Bytes stream;
  for (std::uint32_t rank = 0; rank < 50; ++rank) {
    for (const Bytes& frame : {encode(Hello{rank, rank}), encode_report(std::string(rank * 10, 'r'))})
      stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : {1, 2, 7, 100, 100000}) {
    FrameReader reader;
    std::uint32_t frames = 0;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.append(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = reader.next()) {
        if (frames % 2 == 0) {
          EXPECT_EQ(decode_hello(*frame).rank, frames / 2);
        } else {
          EXPECT_EQ(decode_report(*frame).size(), frames / 2 * 10);
        }
        ++frames;
      }
    }
    EXPECT_EQ(frames, 100);
  }
}

TEST(ControlFrame, RefusesTypesAndLengthsThatDoNotExist) {
  for (unsigned type = 0; type < 256; ++type) {
    FrameReader reader;
    reader.append(Bytes{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte(type)});
    EXPECT_THROW((void)reader.next(), ProtocolError) << type;
  }
}

TEST(ControlFrame, DecodersRefuseWhatIsNotTheirs) {
  const auto accepts = [](FrameType type, const auto& decode) {
    std::vector<std::size_t> sizes;
    for (unsigned other = 1; other <= static_cast<unsigned>(FrameType::Report); ++other) {
      for (const std::size_t size : {0, 1, 5, 8, 9, 15, 16, 17}) {
        try {
          (void)decode(Frame{static_cast<FrameType>(other), blob(size)});
          EXPECT_EQ(static_cast<FrameType>(other), type);
          sizes.push_back(size);
        } catch (const ProtocolError&) {
          // Refused, as most are.
        }
      }
    }
    return sizes;
  };
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(accepts(FrameType::Hello, decode_hello), Sizes{}) << "the bytes are not its first ones";
  EXPECT_EQ(accepts(FrameType::Heartbeat, decode_heartbeat), Sizes{9});
  EXPECT_EQ(accepts(FrameType::Gather, decode_gather), (Sizes{8, 9, 15, 16, 17}));
  EXPECT_EQ(accepts(FrameType::Gathered, [](const Frame& frame) { return decode_gathered(frame, 2); }),
            Sizes{});
  EXPECT_EQ(accepts(FrameType::Failed, [](const Frame& frame) { return decode_failure(frame, 2); }), Sizes{});
  EXPECT_EQ(accepts(FrameType::Ping, decode_ping), Sizes{8});
  EXPECT_EQ(accepts(FrameType::Pong, decode_pong), Sizes{16});
  EXPECT_EQ(accepts(FrameType::Report, decode_report), (Sizes{0, 1, 5, 8, 9, 15, 16, 17}));
}

TEST(ControlFrame, BlobsOfAllRanksFitTheirFrame) {
  for (const std::uint32_t ranks : {1U, 2U, 64U, 4096U}) {
    EXPECT_GT(longest_blob(ranks), 0);
    EXPECT_LE(longest_blob(ranks) * ranks, std::size_t{1} << 30);
  }
}

}  // namespace
}  // namespace sluice::process
