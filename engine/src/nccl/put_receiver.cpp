#include "put_receiver.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sluice/error.hpp"
#include "sluice/host/payload.hpp"

namespace sluice::nccl {
namespace {

std::uint32_t puts_of(const PutReceiving& message) {
  const auto payloads = std::count_if(message.shapes.begin(), message.shapes.end(),
                                      [](const TensorShape& shape) { return host::bytes_of(shape) > 0; });
  return static_cast<std::uint32_t>(payloads) + 1;
}

}  // namespace

void PutReceiver::accept(PutReceiving& message) noexcept {
  message.next_accepted = nullptr;
  (first_ == nullptr ? first_ : last_->next_accepted) = &message;
  last_ = &message;
  if (not_granted_ == nullptr) not_granted_ = &message;
}

PutReceiving* PutReceiver::grant_next() noexcept {
  if (not_granted_ == nullptr || granted_ - arrived_ == kPutRing) return nullptr;
  PutReceiving* message = not_granted_;
  not_granted_ = message->next_accepted;
  ++granted_;
  return message;
}

void PutReceiver::advance() {
  if (first_ == nullptr || first_ == not_granted_ || wait_ == Wait::HeaderFollows || !line_.ready()) return;
  if (wait_ == Wait::None) {
    line_.wait_for(puts_of(*first_));
    wait_ = Wait::Armed;
    if (!line_.ready()) return;
  }
  line_.stream().copy(reinterpret_cast<std::byte*>(&line_.pinned(entry())), line_.entry(entry()),
                      sizeof(PutHeader));
  line_.stream().mark_end(*first_);
  wait_ = Wait::HeaderFollows;
}

PutReceiving* PutReceiver::take_arrived() {
  if (wait_ != Wait::HeaderFollows) return nullptr;
  auto* message = static_cast<PutReceiving*>(line_.stream().take_ended());
  if (message == nullptr) return nullptr;
  check_header(*message);
  first_ = message->next_accepted;
  ++arrived_;
  wait_ = Wait::None;
  return message;
}

void PutReceiver::check_header(const PutReceiving& message) {
  const PutHeader& header = line_.pinned(entry());
  if (header == PutHeader{arrived_, message.id, message.bytes}) return;
  // An aborted wait ends too.
  line_.check_health();
  throw ProtocolError(fmt::format("{}: {} of {} bytes was granted, but what came is message {}, {} of {}",
                                  line_.name(), to_string(message.id), message.bytes, header.sequence,
                                  to_string(header.id), header.bytes));
}

}  // namespace sluice::nccl
