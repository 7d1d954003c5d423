#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/transport.hpp"

namespace sluice::ucx {

/// Kinds of messages between ranks, told apart by UCX's number of the active message.
enum class MessageKind : std::uint8_t {
  /// A MessageHeader and the tensors.
  Pipeline = 1,
  /// A MessageHeader without tensors: its receiver has taken a message without payload.
  Taken = 2,
  /// A ChannelHeader and what the member says.
  Channel = 3,
  /// A ChannelHeader of no run: the last message from one rank to another.
  Leaving = 4,
};

/// What a message between ranks says of itself, before its tensors.
struct MessageHeader {
  std::uint64_t job = 0;
  std::uint32_t run = 0;
  /// The rank that sent it.
  std::uint32_t source = 0;
  MessageId id;
  /// Names the message to its sender.
  std::uint32_t token = 0;
  std::uint32_t tensors = 0;

  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};

/// Bytes of a header without tensors.
inline constexpr std::size_t kHeaderBytes = 48;
/// Most bytes that one tensor adds.
inline constexpr std::size_t kTensorBytes = 4 + sizeof(std::int64_t) * TensorShape::kMaxRank;

/// Writes the header, then of each tensor its type and extents; `header.tensors` is their number.
void encode(const MessageHeader& header, std::span<const TensorShape> shapes, std::vector<std::byte>& bytes);

/// The header without its tensors.
/// @throws ProtocolError if it is too short, or not of this version of Sluice
[[nodiscard]] MessageHeader decode(std::span<const std::byte> bytes);

/// Reads the tensors of a header.
/// @return bytes of all elements
/// @throws ProtocolError if they do not fit the header's length, or no memory could hold them
std::uint64_t decode_shapes(const MessageHeader& header, std::span<const std::byte> bytes,
                            std::vector<TensorShape>& shapes);

/// Word of a message between the members of a group.
struct ChannelHeader {
  std::uint64_t job = 0;
  std::uint32_t run = 0;
  std::uint32_t source = 0;
  /// Counts the messages from one member to another.
  std::uint64_t sequence = 0;

  friend bool operator==(const ChannelHeader&, const ChannelHeader&) = default;
};

inline constexpr std::size_t kChannelHeaderBytes = 32;

void encode(const ChannelHeader& header, std::span<std::byte, kChannelHeaderBytes> bytes);
/// @throws ProtocolError if it is not of this length, or not of this version of Sluice
[[nodiscard]] ChannelHeader decode_channel(std::span<const std::byte> bytes);

}  // namespace sluice::ucx
