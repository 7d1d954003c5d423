#include "sluice/ucx/message_header.hpp"

#include <cstring>
#include <limits>
#include <string>

#include "sluice/error.hpp"

namespace sluice::ucx {
namespace {

// "SLUI" and the version of the layouts below.
constexpr std::uint32_t kMagic = 0x49554c53;
constexpr std::uint16_t kVersion = 1;

/// Ranks of one job have the same byte order.
class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}

  template <typename T>
  void put(const T& value) {
    std::memcpy(to_, &value, sizeof value);
    to_ += sizeof value;
  }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}

  template <typename T>
  [[nodiscard]] T take() {
    T value{};
    std::memcpy(&value, from_.data(), sizeof value);
    from_ = from_.subspan(sizeof value);
    return value;
  }
  [[nodiscard]] std::size_t left() const noexcept { return from_.size(); }

 private:
  std::span<const std::byte> from_;
};

void check_magic(std::uint32_t magic, std::uint16_t version) {
  if (magic != kMagic) throw ProtocolError("a message that is not of Sluice");
  if (version == kVersion) return;
  throw ProtocolError("a message of version " + std::to_string(version) + " of the protocol, expected " +
                      std::to_string(kVersion));
}

[[noreturn]] void refuse(const MessageHeader& header, const std::string& reason) {
  throw ProtocolError("rank " + std::to_string(header.source) + ": " + to_string(header.id) + " " + reason);
}

/// Bytes of the tensor's elements.
std::uint64_t checked_bytes(const MessageHeader& header, const TensorShape& shape) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (shape.dtype_bits == 0) refuse(header, "has a tensor without an element type");
  std::uint64_t bytes = (shape.dtype_bits + 7U) / 8U;
  bool overflows = false;
  bool empty = false;
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (shape.extent[i] < 0) refuse(header, "has a tensor with a negative extent");
    const auto extent = static_cast<std::uint64_t>(shape.extent[i]);
    empty |= extent == 0;
    if (extent == 0) continue;
    overflows |= bytes > most / extent;
    bytes *= extent;
  }
  if (empty) return 0;
  if (overflows) refuse(header, "has a tensor that no memory could hold");
  return bytes;
}

}  // namespace

void encode(const MessageHeader& header, std::span<const TensorShape> shapes, std::vector<std::byte>& bytes) {
  std::size_t size = kHeaderBytes;
  for (const TensorShape& shape : shapes) size += 4 + sizeof(std::int64_t) * shape.rank;
  bytes.resize(size);
  Writer out(bytes.data());
  out.put(kMagic);
  out.put(kVersion);
  out.put(header.id.edge);
  out.put(header.job);
  out.put(header.run);
  out.put(header.source);
  out.put(header.id.iteration);
  out.put(header.id.microbatch);
  out.put(header.token);
  out.put(header.tensors);
  out.put(static_cast<std::uint32_t>(header.id.direction));
  for (const TensorShape& shape : shapes) {
    out.put(shape.dtype_code);
    out.put(shape.dtype_bits);
    out.put(shape.rank);
    out.put(std::uint8_t{0});
    for (std::size_t i = 0; i < shape.rank; ++i) out.put(shape.extent[i]);
  }
}

MessageHeader decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) {
    throw ProtocolError("a message whose header has " + std::to_string(bytes.size()) +
                        " bytes, expected at least " + std::to_string(kHeaderBytes));
  }
  Reader in(bytes);
  const auto magic = in.take<std::uint32_t>();
  check_magic(magic, in.take<std::uint16_t>());
  MessageHeader header;
  header.id.edge = in.take<EdgeId>();
  header.job = in.take<std::uint64_t>();
  header.run = in.take<std::uint32_t>();
  header.source = in.take<std::uint32_t>();
  header.id.iteration = in.take<std::uint64_t>();
  header.id.microbatch = in.take<Microbatch>();
  header.token = in.take<std::uint32_t>();
  header.tensors = in.take<std::uint32_t>();
  const auto direction = in.take<std::uint32_t>();
  if (direction > 1) {
    throw ProtocolError("rank " + std::to_string(header.source) + ": a message of direction " +
                        std::to_string(direction));
  }
  header.id.direction = static_cast<Direction>(direction);
  return header;
}

std::uint64_t decode_shapes(const MessageHeader& header, std::span<const std::byte> bytes,
                            std::vector<TensorShape>& shapes) {
  Reader in(bytes.subspan(kHeaderBytes));
  shapes.clear();
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < header.tensors; ++i) {
    if (in.left() < 4) refuse(header, "has a header that ends before its tensors");
    TensorShape shape;
    shape.dtype_code = in.take<std::uint8_t>();
    shape.dtype_bits = in.take<std::uint8_t>();
    shape.rank = in.take<std::uint8_t>();
    [[maybe_unused]] const auto padding = in.take<std::uint8_t>();
    if (shape.rank > TensorShape::kMaxRank) refuse(header, "has a tensor of too many dimensions");
    if (in.left() < sizeof(std::int64_t) * shape.rank) {
      refuse(header, "has a header that ends before its tensors");
    }
    for (std::size_t d = 0; d < shape.rank; ++d) shape.extent[d] = in.take<std::int64_t>();
    const std::uint64_t size = checked_bytes(header, shape);
    if (total + size < total) refuse(header, "has tensors that no memory could hold");
    total += size;
    shapes.push_back(shape);
  }
  if (in.left() != 0) refuse(header, "has a header that is longer than its tensors");
  return total;
}

void encode(const ChannelHeader& header, std::span<std::byte, kChannelHeaderBytes> bytes) {
  Writer out(bytes.data());
  out.put(kMagic);
  out.put(kVersion);
  out.put(std::uint16_t{0});
  out.put(header.job);
  out.put(header.run);
  out.put(header.source);
  out.put(header.sequence);
}

ChannelHeader decode_channel(std::span<const std::byte> bytes) {
  if (bytes.size() != kChannelHeaderBytes) {
    throw ProtocolError("a group's message whose header has " + std::to_string(bytes.size()) +
                        " bytes, expected " + std::to_string(kChannelHeaderBytes));
  }
  Reader in(bytes);
  const auto magic = in.take<std::uint32_t>();
  check_magic(magic, in.take<std::uint16_t>());
  [[maybe_unused]] const auto padding = in.take<std::uint16_t>();
  ChannelHeader header;
  header.job = in.take<std::uint64_t>();
  header.run = in.take<std::uint32_t>();
  header.source = in.take<std::uint32_t>();
  header.sequence = in.take<std::uint64_t>();
  return header;
}

}  // namespace sluice::ucx
