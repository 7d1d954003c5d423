#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/process/control_plane.hpp"

namespace sluice::process {

/// A message of the control plane: four bytes of payload length, one of type, the payload. Numbers are
/// little-endian.
enum class FrameType : std::uint8_t {
  Hello = 1,
  Welcome,
  Heartbeat,
  Gather,
  Gathered,
  Failed,
  Goodbye,
  Ping,
  Pong,
  Report
};

using Bytes = std::vector<std::byte>;

/// Most bytes of one rank in an exchange of so many ranks.
[[nodiscard]] std::size_t longest_blob(std::uint32_t ranks) noexcept;
inline constexpr std::size_t kLongestReport = std::size_t{16} << 20;
inline constexpr std::size_t kLongestCause = std::size_t{64} << 10;

/// The first frame of a connection.
struct Hello {
  /// Known only to those that took part in the bootstrap.
  std::uint64_t token = 0;
  std::uint32_t rank = 0;
};

struct Heartbeat {
  /// When the sender last got something done, by its own clock.
  Time progress{};
  /// Inside of an iteration.
  bool inside = false;
};

struct Gather {
  std::uint64_t sequence = 0;
  Bytes blob;
};

struct Gathered {
  std::uint64_t sequence = 0;
  std::vector<Bytes> blobs;
};

struct Ping {
  Time sent{};
};

struct Pong {
  Time sent{};
  /// The answering rank's clock.
  Time there{};
};

[[nodiscard]] Bytes encode(const Hello& hello);
[[nodiscard]] Bytes encode(const Heartbeat& heartbeat);
[[nodiscard]] Bytes encode_gather(std::uint64_t sequence, std::span<const std::byte> blob);
[[nodiscard]] Bytes encode(const Gathered& gathered);
/// A cause that is too long is cut.
[[nodiscard]] Bytes encode(const Failure& failure);
[[nodiscard]] Bytes encode(const Ping& ping);
[[nodiscard]] Bytes encode(const Pong& pong);
[[nodiscard]] Bytes encode_report(std::string_view json);
/// A frame without payload.
[[nodiscard]] Bytes encode(FrameType type);

/// One received frame. The decoders throw ProtocolError for a payload that is not of their kind.
struct Frame {
  FrameType type{};
  Bytes payload;
};

[[nodiscard]] Hello decode_hello(const Frame& frame);
[[nodiscard]] Heartbeat decode_heartbeat(const Frame& frame);
[[nodiscard]] Gather decode_gather(const Frame& frame);
[[nodiscard]] Gathered decode_gathered(const Frame& frame, std::uint32_t ranks);
[[nodiscard]] Failure decode_failure(const Frame& frame, std::uint32_t ranks);
[[nodiscard]] Ping decode_ping(const Frame& frame);
[[nodiscard]] Pong decode_pong(const Frame& frame);
[[nodiscard]] std::string decode_report(const Frame& frame);

/// Cuts a stream of bytes into frames. Holds at most one frame more than what was given to it.
class FrameReader {
 public:
  void append(std::span<const std::byte> bytes);
  /// The next complete frame.
  /// @throws ProtocolError for a type that does not exist or a length that its type cannot have
  [[nodiscard]] std::optional<Frame> next();

 private:
  Bytes buffer_;
  std::size_t taken_ = 0;
};

}  // namespace sluice::process
