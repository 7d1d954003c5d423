#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "sluice/process/control_frame.hpp"
#include "socket.hpp"

namespace sluice::process {

/// A frame on its way; several links may send the same one.
using SharedFrame = std::shared_ptr<const Bytes>;

[[nodiscard]] inline SharedFrame share(Bytes frame) {
  return std::make_shared<const Bytes>(std::move(frame));
}

/// One connection of the control plane. Never blocks; used by one thread.
class ControlLink {
 public:
  enum class State : std::uint8_t {
    Open,
    /// The other process closed it, or has ended.
    Closed,
    /// The system gave up on the other host.
    Unreachable,
  };

  explicit ControlLink(Descriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] State state() const noexcept { return state_; }
  /// What the system said when the state became Unreachable.
  [[nodiscard]] int error() const noexcept { return error_; }
  [[nodiscard]] bool idle() const noexcept { return out_.empty(); }

  void send(SharedFrame frame);
  /// Sends what the socket takes.
  void flush();
  /// Reads what has come, at most some MiB. True if anything had.
  bool receive();
  /// @throws ProtocolError as FrameReader does
  [[nodiscard]] std::optional<Frame> next() { return reader_.next(); }

  /// Nothing more will be sent.
  void shut();
  /// Reads and forgets. False once the other end has closed.
  bool drain();

 private:
  void broke(int error);
  void forget();

  Descriptor socket_;
  State state_ = State::Open;
  int error_ = 0;
  std::deque<SharedFrame> out_;
  /// Bytes of the first frame that have been sent.
  std::size_t sent_ = 0;
  FrameReader reader_;
};

}  // namespace sluice::process
