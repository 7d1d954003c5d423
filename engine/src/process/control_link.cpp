#include "control_link.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace sluice::process {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr int kReadsInARow = 64;

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void ControlLink::send(SharedFrame frame) {
  if (state_ == State::Open) out_.push_back(std::move(frame));
}

void ControlLink::flush() {
  while (state_ == State::Open && !out_.empty()) {
    const Bytes& frame = *out_.front();
    const ssize_t count = ::send(socket_.get(), frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EPIPE || errno == ECONNRESET) {
        // What the other end said before it closed is still to be read, so the reading end decides.
        forget();
      } else if (!again(errno)) {
        broke(errno);
      }
      return;
    }
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < frame.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
}

bool ControlLink::receive() {
  std::array<std::byte, kReadAtOnce> buffer;
  bool any = false;
  for (int i = 0; i < kReadsInARow && state_ == State::Open; ++i) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count < 0) {
      if (!again(errno)) broke(errno);
      return any;
    }
    if (count == 0) {
      broke(0);
      return any;
    }
    any = true;
    reader_.append(std::span(buffer).first(static_cast<std::size_t>(count)));
    if (static_cast<std::size_t>(count) < buffer.size()) return any;
  }
  return any;
}

void ControlLink::shut() { shutdown(socket_.get(), SHUT_WR); }

bool ControlLink::drain() {
  std::array<std::byte, kReadAtOnce> buffer;
  for (int i = 0; i < kReadsInARow; ++i) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count == 0) return false;
    if (count < 0) return again(errno);
  }
  return true;
}

void ControlLink::broke(int error) {
  const bool reset = error == 0 || error == ECONNRESET || error == EPIPE;
  state_ = reset ? State::Closed : State::Unreachable;
  error_ = error;
  forget();
}

void ControlLink::forget() {
  out_.clear();
  sent_ = 0;
}

}  // namespace sluice::process
