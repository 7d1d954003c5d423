#include <fmt/format.h>

#include <string>
#include <utility>

#include "ipc_transport_impl.hpp"
#include "sluice/error.hpp"
#include "sluice/host/payload.hpp"

namespace sluice::cuda {

IpcLink& IpcTransport::Impl::link_with(StageId stage) const { return *link_of_stage_[stage]; }

bool IpcTransport::Impl::poll(Offer& offer) {
  look();
  IpcReceiving* message = nullptr;
  if (!offers_.pop(message)) {
    look_after_neighbours();
    return false;
  }
  std::uint64_t bytes = 0;
  for (const TensorShape& shape : message->shapes) bytes += host::bytes_of(shape);
  offer = {message->id, bytes, receivings_.number_of(*message), message->shapes};
  return true;
}

bool IpcTransport::Impl::poll(SendDone& done) {
  look();
  return dones_.pop(done);
}

bool IpcTransport::Impl::poll(Arrival& arrival) {
  if (pulling_ == 0) return false;
  for (const auto& link : connections_.links) {
    StreamedMessage* pull = link->pulls().take_ended();
    if (pull == nullptr) continue;
    arrival = {pull->id, pull->slot};
    finish(static_cast<IpcReceiving&>(*pull));
    return true;
  }
  return false;
}

/// Takes in what the neighbours have said.
void IpcTransport::Impl::look() {
  for (const auto& link : connections_.links) {
    while (const std::byte* record = link->in().front()) {
      take(*link, *reinterpret_cast<const IpcMessage*>(record));
      link->in().read();
    }
  }
}

void IpcTransport::Impl::take(IpcLink& link, const IpcMessage& message) {
  if (message.kind == IpcMessage::Kind::Offer) return take_offer(link, message);
  take_back(link, message);
}

void IpcTransport::Impl::take_offer(IpcLink& link, const IpcMessage& message) {
  check_offer(link, message);
  IpcReceiving* const taken = receivings_.take();
  if (taken == nullptr) throw ProtocolError(where() + ": more messages in flight than two iterations have");
  IpcReceiving& receiving = *taken;
  const auto* tensors = reinterpret_cast<const IpcTensor*>(&message + 1);
  receiving.tensors.assign(tensors, tensors + message.tensors);
  receiving.shapes.clear();
  for (const IpcTensor& tensor : receiving.tensors) receiving.shapes.push_back(tensor.shape);
  receiving.id = message.id;
  receiving.link = &link;
  receiving.token = message.token;
  check_fits(receiving, incoming(message.id, 0));
  // As long as the records.
  static_cast<void>(offers_.push(&receiving));
}

void IpcTransport::Impl::check_offer(const IpcLink& link, const IpcMessage& message) const {
  const MessageId& id = message.id;
  if (id.edge >= ends_.size() || !is_known(id.direction) || id.microbatch >= pipeline_.microbatches() ||
      ends_[id.edge].sender(id.direction) != link.stage() ||
      ends_[id.edge].receiver(id.direction) != stage_) {
    throw ProtocolError(fmt::format("{}: {} offers it the {}, which does not lead there", where(), peer(link),
                                    to_string(id)));
  }
}

void IpcTransport::Impl::check_fits(const IpcReceiving& message, std::span<const SlotTensor> tensors) const {
  const auto refuse = [&](const std::string& cause) {
    return ProtocolError(
        fmt::format("{}: {} from {}: {}", where(), to_string(message.id), peer(*message.link), cause));
  };
  if (const std::string reason = misfit(message.shapes, tensors); !reason.empty()) throw refuse(reason);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const IpcTensor& tensor = message.tensors[i];
    const std::uint64_t bytes = host::bytes_of(tensor.shape);
    if (bytes > message.link->block_bytes() || tensor.offset > message.link->block_bytes() - bytes)
      throw refuse(fmt::format("tensor {} does not lie in the sender's slots", i));
  }
}

void IpcTransport::Impl::take_back(const IpcLink& link, const IpcMessage& message) {
  if (message.token >= sendings_.size() || !sendings_[message.token].used ||
      sendings_[message.token].link != &link || sendings_[message.token].id != message.id) {
    throw ProtocolError(fmt::format("{}: {} answers the {}, which was not sent to it", where(), peer(link),
                                    message.id.edge < ends_.size() ? to_string(message.id) : "message"));
  }
  IpcSending& sending = sendings_[message.token];
  static_cast<void>(dones_.push({sending.id, sending.slot}));
  sending.used = false;
  sendings_.give_back(sending);
}

void IpcTransport::Impl::accept(const Offer& offer, Slot slot) {
  IpcReceiving& message = receivings_[offer.handle];
  message.slot = slot;
  try {
    pull(message, incoming(message.id, slot));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: pulling the {} from {}: {}", where(), to_string(message.id),
                            peer(*message.link), error.what()));
  }
}

void IpcTransport::Impl::pull(IpcReceiving& message, std::span<SlotTensor> tensors) {
  MessageStream& pulls = message.link->pulls();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const IpcTensor& tensor = message.tensors[i];
    tensors[i].shape = tensor.shape;
    pulls.copy(tensors[i].data, message.link->block() + tensor.offset, host::bytes_of(tensor.shape));
  }
  pulls.mark_end(message);
  ++pulling_;
}

/// Tells the sender that its slot is no longer read.
void IpcTransport::Impl::finish(IpcReceiving& message) {
  IpcLink& link = *message.link;
  auto* record = reinterpret_cast<IpcMessage*>(record_to(link));
  *record = {IpcMessage::Kind::Taken, message.token, message.id, 0};
  link.post();
  --pulling_;
  receivings_.give_back(message);
}

void IpcTransport::Impl::send(const MessageId& id, Slot slot) {
  const EdgeEnds& ends = ends_[id.edge];
  IpcLink& link = link_with(ends.receiver(id.direction));
  if (link.state() != IpcState::Here)
    throw Error(
        fmt::format("{}: {} has left, the {} cannot be sent to it", where(), peer(link), to_string(id)));
  IpcSending* const taken = sendings_.take();
  if (taken == nullptr) throw ProtocolError(where() + ": more messages in flight than two iterations have");
  IpcSending& sending = *taken;
  sending.id = id;
  sending.slot = slot;
  sending.link = &link;
  write_offer(link, sending, ends.outgoing(slots_, id.direction, slot));
  sending.used = true;
  link.post();
}

void IpcTransport::Impl::write_offer(IpcLink& link, const IpcSending& sending,
                                     std::span<const SlotTensor> tensors) {
  std::byte* record = record_to(link);
  *reinterpret_cast<IpcMessage*>(record) = {IpcMessage::Kind::Offer,
                                            static_cast<std::uint32_t>(sendings_.number_of(sending)),
                                            sending.id, tensors.size()};
  auto* described = reinterpret_cast<IpcTensor*>(record + sizeof(IpcMessage));
  for (const SlotTensor& tensor : tensors) {
    if (host::bytes_of(tensor.shape) > tensor.capacity) {
      throw ProtocolError(fmt::format("{}: {}: {} does not fit the {} bytes that its slot has for it",
                                      where(), to_string(sending.id), host::to_string(tensor.shape),
                                      tensor.capacity));
    }
    *described++ = {static_cast<std::uint64_t>(tensor.data - slots_.block().data()), tensor.shape};
  }
}

std::byte* IpcTransport::Impl::record_to(const IpcLink& link) const {
  std::byte* record = link.out().back();
  if (record == nullptr) throw ProtocolError(fmt::format("{}: {} takes no more words", where(), peer(link)));
  return record;
}

}  // namespace sluice::cuda
