#include "sluice/process/control_frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstring>

#include "sluice/error.hpp"
#include "text_bytes.hpp"

namespace sluice::process {
namespace {

constexpr std::uint32_t kMagic = 0x50434c53;  // "SLCP"
constexpr std::size_t kHead = 5;
constexpr std::size_t kLongestBlob = std::size_t{64} << 20;
constexpr std::size_t kLongestGathered = std::size_t{1} << 30;
/// What a gathered frame adds to its blobs, for as many ranks as anybody has.
constexpr std::size_t kGatheredMargin = std::size_t{1} << 20;

std::size_t longest_payload(FrameType type) {
  switch (type) {
    case FrameType::Hello:
    case FrameType::Heartbeat:
    case FrameType::Ping:
    case FrameType::Pong:
      return 16;
    case FrameType::Welcome:
    case FrameType::Goodbye:
      return 0;
    case FrameType::Gather:
      return kLongestBlob + sizeof(std::uint64_t);
    case FrameType::Gathered:
      return kLongestGathered + kGatheredMargin;
    case FrameType::Failed:
      return kLongestCause + 16;
    case FrameType::Report:
      return kLongestReport;
  }
  throw ProtocolError(fmt::format("a control frame of type {}", static_cast<unsigned>(type)));
}

/// Builds a frame; the length is filled in at the end.
class Writer {
 public:
  explicit Writer(FrameType type, std::size_t payload = 0) {
    bytes_.reserve(kHead + payload);
    number(std::uint32_t{0});
    number(static_cast<std::uint8_t>(type));
  }

  template <std::unsigned_integral Number>
  Writer& number(Number value) {
    for (std::size_t i = 0; i < sizeof(Number); ++i)
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Writer& time(Time value) { return number(static_cast<std::uint64_t>(value.count())); }
  Writer& append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  [[nodiscard]] Bytes take() {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - kHead);
    for (std::size_t i = 0; i < sizeof length; ++i) bytes_[i] = static_cast<std::byte>(length >> (8 * i));
    return std::move(bytes_);
  }

 private:
  Bytes bytes_;
};

template <std::unsigned_integral Number>
Number number_at(std::span<const std::byte> bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value = static_cast<Number>(value | static_cast<Number>(std::to_integer<Number>(bytes[i]) << (8 * i)));
  return value;
}

/// Takes a payload apart; whoever reads past its end or leaves something over gets a ProtocolError.
class Reader {
 public:
  Reader(const Frame& frame, FrameType expected) : left_(frame.payload) {
    if (frame.type != expected) refuse("is of another type");
  }

  template <std::unsigned_integral Number>
  Number number() {
    return number_at<Number>(take(sizeof(Number)));
  }
  Time time() { return Time(static_cast<Time::rep>(number<std::uint64_t>())); }
  std::span<const std::byte> take(std::size_t count) {
    if (count > left_.size()) refuse("is too short");
    const std::span<const std::byte> taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  std::span<const std::byte> rest() { return take(left_.size()); }
  void end() const {
    if (!left_.empty()) refuse("is too long");
  }
  [[noreturn]] static void refuse(const char* why) {
    throw ProtocolError(fmt::format("a control frame {}", why));
  }

 private:
  std::span<const std::byte> left_;
};

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

std::string text_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

}  // namespace

std::size_t longest_blob(std::uint32_t ranks) noexcept {
  return std::min(kLongestBlob, kLongestGathered / std::max(ranks, 1U));
}

Bytes encode(const Hello& hello) {
  return Writer(FrameType::Hello, 16).number(kMagic).number(hello.token).number(hello.rank).take();
}

Bytes encode(const Heartbeat& heartbeat) {
  return Writer(FrameType::Heartbeat, 9)
      .time(heartbeat.progress)
      .number(static_cast<std::uint8_t>(heartbeat.inside ? 1 : 0))
      .take();
}

Bytes encode_gather(std::uint64_t sequence, std::span<const std::byte> blob) {
  return Writer(FrameType::Gather, sizeof sequence + blob.size()).number(sequence).append(blob).take();
}

Bytes encode(const Gathered& gathered) {
  std::size_t size = sizeof gathered.sequence;
  for (const Bytes& blob : gathered.blobs) size += sizeof(std::uint32_t) + blob.size();
  Writer writer(FrameType::Gathered, size);
  writer.number(gathered.sequence);
  for (const Bytes& blob : gathered.blobs)
    writer.number(static_cast<std::uint32_t>(blob.size())).append(blob);
  return writer.take();
}

Bytes encode(const Failure& failure) {
  const std::string_view cause = std::string_view(failure.cause).substr(0, kLongestCause);
  return Writer(FrameType::Failed, 5 + cause.size())
      .number(static_cast<std::uint8_t>(failure.kind))
      .number(failure.rank)
      .append(bytes_of(cause))
      .take();
}

Bytes encode(const Ping& ping) { return Writer(FrameType::Ping, 8).time(ping.sent).take(); }

Bytes encode(const Pong& pong) { return Writer(FrameType::Pong, 16).time(pong.sent).time(pong.there).take(); }

Bytes encode_report(std::string_view json) {
  return Writer(FrameType::Report, json.size()).append(bytes_of(json)).take();
}

Bytes encode(FrameType type) { return Writer(type).take(); }

Hello decode_hello(const Frame& frame) {
  Reader reader(frame, FrameType::Hello);
  if (reader.number<std::uint32_t>() != kMagic) Reader::refuse("does not begin as one");
  Hello hello;
  hello.token = reader.number<std::uint64_t>();
  hello.rank = reader.number<std::uint32_t>();
  reader.end();
  return hello;
}

Heartbeat decode_heartbeat(const Frame& frame) {
  Reader reader(frame, FrameType::Heartbeat);
  Heartbeat heartbeat;
  heartbeat.progress = reader.time();
  heartbeat.inside = reader.number<std::uint8_t>() != 0;
  reader.end();
  return heartbeat;
}

Gather decode_gather(const Frame& frame) {
  Reader reader(frame, FrameType::Gather);
  Gather gather;
  gather.sequence = reader.number<std::uint64_t>();
  gather.blob = copy_of(reader.rest());
  return gather;
}

Gathered decode_gathered(const Frame& frame, std::uint32_t ranks) {
  Reader reader(frame, FrameType::Gathered);
  Gathered gathered;
  gathered.sequence = reader.number<std::uint64_t>();
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    gathered.blobs.push_back(copy_of(reader.take(reader.number<std::uint32_t>())));
  reader.end();
  return gathered;
}

Failure decode_failure(const Frame& frame, std::uint32_t ranks) {
  Reader reader(frame, FrameType::Failed);
  Failure failure;
  const auto kind = reader.number<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(Failure::Kind::Stalled))
    Reader::refuse("tells of no known kind of failure");
  failure.kind = static_cast<Failure::Kind>(kind);
  failure.rank = reader.number<std::uint32_t>();
  if (failure.rank >= ranks) Reader::refuse("tells of a rank that does not exist");
  failure.cause = text_of(reader.rest());
  return failure;
}

Ping decode_ping(const Frame& frame) {
  Reader reader(frame, FrameType::Ping);
  const Ping ping{reader.time()};
  reader.end();
  return ping;
}

Pong decode_pong(const Frame& frame) {
  Reader reader(frame, FrameType::Pong);
  Pong pong;
  pong.sent = reader.time();
  pong.there = reader.time();
  reader.end();
  return pong;
}

std::string decode_report(const Frame& frame) { return text_of(Reader(frame, FrameType::Report).rest()); }

void FrameReader::append(std::span<const std::byte> bytes) {
  if (taken_ > buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::optional<Frame> FrameReader::next() {
  const std::span<const std::byte> left = std::span(buffer_).subspan(taken_);
  if (left.size() < kHead) return std::nullopt;
  const auto length = number_at<std::uint32_t>(left);
  const auto type = static_cast<FrameType>(left[sizeof length]);
  if (length > longest_payload(type)) {
    throw ProtocolError(
        fmt::format("a control frame of type {} and {} bytes", static_cast<unsigned>(type), length));
  }
  if (left.size() < kHead + length) return std::nullopt;
  taken_ += kHead + length;
  return Frame{type, copy_of(left.subspan(kHead, length))};
}

}  // namespace sluice::process
