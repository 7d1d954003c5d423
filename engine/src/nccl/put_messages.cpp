#include <fmt/format.h>

#include <string>

#include "put_transport_impl.hpp"
#include "sluice/error.hpp"
#include "sluice/host/payload.hpp"

namespace sluice::nccl {

bool PutTransport::Impl::poll(Offer& offer) {
  look();
  PutReceiving* message = nullptr;
  if (!offers_.pop(message)) {
    look_after_neighbours();
    return false;
  }
  offer = {message->id, message->bytes, receivings_.number_of(*message), message->shapes};
  return true;
}

bool PutTransport::Impl::poll(SendDone& done) {
  look();
  return dones_.pop(done);
}

bool PutTransport::Impl::poll(Arrival& arrival) { return receiving_ > 0 && take_arrival(arrival); }

PutSending& PutTransport::Impl::take_sending() {
  if (PutSending* const sending = sendings_.take()) return *sending;
  throw ProtocolError(where() + ": more messages in flight than two iterations have");
}

PutReceiving& PutTransport::Impl::take_receiving() {
  if (PutReceiving* const receiving = receivings_.take()) return *receiving;
  throw ProtocolError(where() + ": more messages in flight than two iterations have");
}

void PutTransport::Impl::send(const MessageId& id, Slot slot) {
  const StageId to = ends_of(id).receiver(id.direction);
  if (left_[to])
    throw Error(
        fmt::format("{}: {} has left, the {} cannot be sent to it", where(), peer(to), to_string(id)));
  const auto& tensors = ends_of(id).outgoing(slots_, id.direction, slot);
  for (const cuda::SlotTensor& tensor : tensors) {
    if (host::bytes_of(tensor.shape) > tensor.capacity) {
      throw ProtocolError(fmt::format("{}: {}: {} does not fit the {} bytes that its slot has for it",
                                      where(), to_string(id), host::to_string(tensor.shape),
                                      tensor.capacity));
    }
  }
  PutSending& sending = take_sending();
  sending.id = id;
  sending.slot = slot;
  sending.tensors = &tensors;
  sending.used = true;
  sending.granted = false;
  sending.local = nullptr;
  ++sending_;
  if (to == stage_) {
    offer_here(sending);
  } else {
    say_offer(sending);
  }
}

/// To another chunk of this rank.
void PutTransport::Impl::offer_here(PutSending& sending) {
  PutReceiving& message = take_receiving();
  message.id = sending.id;
  message.from = stage_;
  message.local = &sending;
  sending.local = &message;
  message.shapes.clear();
  for (const cuda::SlotTensor& tensor : *sending.tensors) message.shapes.push_back(tensor.shape);
  file_offer(message);
}

void PutTransport::Impl::file_offer(PutReceiving& message) {
  const auto& tensors = ends_of(message.id).incoming(slots_, message.id.direction, 0);
  if (const std::string reason = cuda::misfit(message.shapes, tensors); !reason.empty()) {
    throw ProtocolError(
        fmt::format("{}: {} from {}: {}", where(), to_string(message.id), peer(message.from), reason));
  }
  message.bytes = 0;
  for (const TensorShape& shape : message.shapes) message.bytes += host::bytes_of(shape);
  // As long as the records.
  static_cast<void>(offers_.push(&message));
}

void PutTransport::Impl::accept(const Offer& offer, Slot slot) {
  PutReceiving& message = receivings_[offer.handle];
  if (left_[message.from])
    throw Error(fmt::format("{}: {} has left too early: {}, is offered", where(), peer(message.from),
                            to_string(message.id)));
  message.slot = slot;
  auto& tensors = ends_of(message.id).incoming(slots_, message.id.direction, slot);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].shape = message.shapes[i];
  ++receiving_;
  if (message.local != nullptr) return copy_here(message);
  PutReceiver& receiver = *receiver_of(message.id);
  receiver.accept(message);
  grant(receiver);
}

void PutTransport::Impl::copy_here(PutReceiving& message) {
  const auto& from = *message.local->tensors;
  const auto& to = ends_of(message.id).incoming(slots_, message.id.direction, message.slot);
  for (std::size_t i = 0; i < to.size(); ++i)
    copies_.copy(to[i].data, from[i].data, host::bytes_of(message.shapes[i]));
  copies_.mark_end(message);
}

void PutTransport::Impl::grant(PutReceiver& receiver) {
  while (const PutReceiving* message = receiver.grant_next()) say_grant(*message);
}

void PutTransport::Impl::advance_senders() {
  if (granted_ == 0) return;
  for (const auto& sender : connections_.senders) {
    if (sender == nullptr || sender->idle()) continue;
    sender->advance();
    while (PutSending* message = sender->take_ended()) {
      --granted_;
      finish(*message);
    }
  }
}

bool PutTransport::Impl::take_arrival(Arrival& arrival) {
  if (auto* copied = static_cast<PutReceiving*>(copies_.take_ended())) {
    finish(*copied->local);
    finish(*copied, arrival);
    return true;
  }
  for (const auto& receiver : connections_.receivers) {
    if (receiver == nullptr || receiver->idle()) continue;
    receiver->advance();
    PutReceiving* const message = receiver->take_arrived();
    if (message == nullptr) continue;
    grant(*receiver);
    finish(*message, arrival);
    return true;
  }
  return false;
}

void PutTransport::Impl::finish(PutReceiving& message, Arrival& arrival) {
  arrival = {message.id, message.slot};
  --receiving_;
  receivings_.give_back(message);
}

void PutTransport::Impl::finish(PutSending& message) {
  static_cast<void>(dones_.push({message.id, message.slot}));
  --sending_;
  message.used = false;
  sendings_.give_back(message);
}

/// Every place was the receiver's to choose, but none may lie outside of its window.
void PutTransport::Impl::check_places(StageId from, const PutSending& message) const {
  const std::size_t window = slots_.block().size();
  for (std::size_t i = 0; i < message.places.size(); ++i) {
    const std::uint64_t bytes = host::bytes_of((*message.tensors)[i].shape);
    if (bytes <= window && message.places[i] <= window - bytes) continue;
    if (bytes == 0) continue;
    throw ProtocolError(fmt::format("{}: {} wants tensor {} of {} outside of its slots", where(), peer(from),
                                    i, to_string(message.id)));
  }
}

}  // namespace sluice::nccl
