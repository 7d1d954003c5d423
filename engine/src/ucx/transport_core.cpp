#include "transport_core.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "payload_buffer.hpp"

namespace sluice::ucx {
namespace {

/// Marks the handle of an offer between two chunks of this stage; the rest is the source slot.
constexpr std::uint64_t kLocal = std::uint64_t{1} << 63U;

/// Chains records so that the first one is taken first.
template <typename Record>
Record* chain(std::vector<Record>& records, TransportCore* core) {
  Record* first = nullptr;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    record->core = core;
    record->next = std::exchange(first, &*record);
  }
  return first;
}

}  // namespace

TransportCore::TransportCore(Plane& plane, std::uint32_t run, const Pipeline& pipeline, StageId stage,
                             std::vector<std::uint32_t> rank_of_stage, host::SlotBuffers* buffers)
    : plane_(plane),
      run_(run),
      pipeline_(pipeline),
      buffers_(buffers),
      stage_(stage),
      rank_of_stage_(std::move(rank_of_stage)),
      sendings_(count_messages().outgoing),
      receivings_(count_messages().incoming),
      offers_(count_messages().incoming + count_messages().local),
      arrivals_(count_messages().incoming + count_messages().local),
      dones_(count_messages().outgoing + count_messages().local) {
  if (stage >= pipeline.stages()) throw ConfigError("stage", std::to_string(stage) + " does not exist");
  if (rank_of_stage_.size() != pipeline.stages()) {
    throw ConfigError("ranks", std::to_string(rank_of_stage_.size()) + " given for " +
                                   std::to_string(pipeline.stages()) + " stages");
  }
  if (rank_of_stage_[stage] != plane.rank()) {
    throw ConfigError("ranks", "stage " + std::to_string(stage) + " belongs to rank " +
                                   std::to_string(rank_of_stage_[stage]) + ", this is rank " +
                                   std::to_string(plane.rank()));
  }
  for (const Edge& edge : pipeline.edges()) {
    const auto id = static_cast<EdgeId>(ends_.size());
    ends_.push_back({pipeline.stage_of(edge.from), pipeline.stage_of(edge.to),
                     host::place_of(pipeline.out_edges(edge.from), id),
                     host::place_of(pipeline.in_edges(edge.to), id)});
  }
  for (const End& end : ends_) {
    if (end.tail_stage == end.head_stage) continue;
    for (const auto& [own, other] :
         {std::pair(end.tail_stage, end.head_stage), std::pair(end.head_stage, end.tail_stage)}) {
      if (own != stage) continue;
      const std::uint32_t rank = rank_of_stage_[other];
      if (rank >= plane.ranks() || rank == plane.rank()) {
        throw ConfigError(
            "ranks", "stage " + std::to_string(other) + " cannot belong to rank " + std::to_string(rank));
      }
      plane.endpoint(rank);
    }
  }
  free_sendings_ = chain(sendings_, this);
  free_receivings_ = chain(receivings_, this);
}

/// A neighbour may be one iteration ahead.
TransportCore::Counts TransportCore::count_messages() const {
  Counts edges;
  for (const Edge& edge : pipeline_.edges()) {
    const bool tail = pipeline_.stage_of(edge.from) == stage_;
    const bool head = pipeline_.stage_of(edge.to) == stage_;
    if (tail && head) {
      edges.local += 2;
    } else if (tail || head) {
      ++edges.incoming;
      ++edges.outgoing;
    }
  }
  const std::size_t each = 2 * std::size_t{pipeline_.microbatches()};
  return {edges.incoming * each, edges.outgoing * each, edges.local * each};
}

StageId TransportCore::sender_of(const MessageId& id) const {
  const End& end = ends_[id.edge];
  return id.direction == Direction::Activation ? end.tail_stage : end.head_stage;
}

StageId TransportCore::receiver_of(const MessageId& id) const {
  const End& end = ends_[id.edge];
  return id.direction == Direction::Activation ? end.head_stage : end.tail_stage;
}

host::Payload& TransportCore::outgoing(const MessageId& id, Slot slot) {
  host::SlotBuffer& buffer = (*buffers_)[slot];
  return id.direction == Direction::Activation ? buffer.outputs[ends_[id.edge].at_tail]
                                               : buffer.input_grads[ends_[id.edge].at_head];
}

host::Payload& TransportCore::incoming(const MessageId& id, Slot slot) {
  host::SlotBuffer& buffer = (*buffers_)[slot];
  return id.direction == Direction::Activation ? buffer.inputs[ends_[id.edge].at_head]
                                               : buffer.output_grads[ends_[id.edge].at_tail];
}

bool TransportCore::poll(Offer& offer) { return offers_.pop(offer); }
bool TransportCore::poll(Arrival& arrival) { return arrivals_.pop(arrival); }
bool TransportCore::poll(SendDone& done) { return dones_.pop(done); }

void TransportCore::send(const MessageId& id, Slot slot) {
  const StageId to = receiver_of(id);
  if (to != stage_) return send_to_rank(id, slot, rank_of_stage_[to]);
  if (!offers_.push({id, 0, kLocal | slot, {}})) throw overflow();
}

ProtocolError TransportCore::overflow() const {
  return ProtocolError("rank " + std::to_string(plane_.rank()) +
                       ": more messages in flight than two iterations have");
}

void TransportCore::send_to_rank(const MessageId& id, Slot slot, std::uint32_t rank) {
  if (free_sendings_ == nullptr) throw overflow();
  Sending& sending = *free_sendings_;
  sending.id = id;
  sending.slot = slot;
  sending.rank = rank;
  const host::Payload* payload = buffers_ != nullptr ? &outgoing(id, slot) : nullptr;
  try {
    post(sending, payload);
  } catch (const Error& error) {
    throw Error(to_string(id) + " to rank " + std::to_string(rank) + ": " + error.what());
  }
}

void TransportCore::post(Sending& sending, const host::Payload* payload) {
  static const host::Payload nothing;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  PayloadBuffer buffer =
      describe(payload != nullptr ? *payload : nothing, sending.shapes, sending.pieces, param);
  const auto token = static_cast<std::uint32_t>(&sending - sendings_.data());
  const auto tensors = static_cast<std::uint32_t>(sending.shapes.size());
  encode({plane_.job(), run_, plane_.rank(), sending.id, token, tensors}, sending.shapes, sending.header);
  if (sending.header.size() > plane_.longest_header()) {
    throw Error(std::to_string(tensors) + " tensors do not fit a header of " +
                std::to_string(plane_.longest_header()) + " bytes");
  }
  const ucp_ep_h to = plane_.endpoint(sending.rank);
  sending.untaken = buffer.bytes == 0;
  if (sending.untaken) {
    param.op_attr_mask &=
        ~static_cast<std::uint32_t>(UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE);
    buffer = {};
  }
  param.flags = sending.untaken ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  param.cb.send = &TransportCore::message_left;
  param.user_data = &sending;
  free_sendings_ = sending.next;
  sending.used = sending.in_ucx = true;
  ++in_ucx_;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(to, static_cast<unsigned>(MessageKind::Pipeline), sending.header.data(),
                      sending.header.size(), buffer.data, buffer.count, &param);
  if (!UCS_PTR_IS_PTR(request)) left(sending, UCS_PTR_STATUS(request));
}

void TransportCore::message_left(void* request, ucs_status_t status, void* sending) {
  auto& message = *static_cast<Sending*>(sending);
  message.core->left(message, status);
  ucp_request_free(request);
}

void TransportCore::left(Sending& sending, ucs_status_t status) {
  sending.in_ucx = false;
  --in_ucx_;
  sending.kept.clear();
  if (closed_) return;
  if (UCS_STATUS_IS_ERR(status)) {
    plane_.note_failed(sending.rank, to_string(sending.id) + " cannot be sent to it", status);
  } else if (!sending.untaken) {
    finish(sending);
  }
}

void TransportCore::taken(const MessageHeader& header) {
  if (header.token >= sendings_.size()) throw ProtocolError("it answers a message that was not sent");
  Sending& sending = sendings_[header.token];
  if (!sending.used || !sending.untaken || sending.id != header.id || sending.rank != header.source)
    throw ProtocolError("it answers a message that was not sent");
  sending.untaken = false;
  if (!sending.in_ucx) finish(sending);
}

void TransportCore::finish(Sending& sending) {
  if (buffers_ != nullptr) outgoing(sending.id, sending.slot).clear();
  sent({sending.id, sending.slot});
  sending.used = false;
  sending.next = std::exchange(free_sendings_, &sending);
}

/// Called by UCX, through which nothing can be thrown.
void TransportCore::sent(const SendDone& done) {
  if (!dones_.push(done)) plane_.note(std::make_exception_ptr(overflow()));
}

void TransportCore::arrived(const Arrival& arrival) {
  if (!arrivals_.push(arrival)) plane_.note(std::make_exception_ptr(overflow()));
}

void TransportCore::check_address(const MessageHeader& header) const {
  const MessageId& id = header.id;
  if (id.edge >= ends_.size()) throw ProtocolError("there is no such edge");
  if (id.microbatch >= pipeline_.microbatches()) throw ProtocolError("there is no such microbatch");
  if (receiver_of(id) != stage_) throw ProtocolError("its edge does not end here");
  if (sender_of(id) == stage_) throw ProtocolError("its edge does not leave this rank");
  const std::uint32_t owner = rank_of_stage_[sender_of(id)];
  if (owner != header.source) throw ProtocolError("rank " + std::to_string(owner) + " owns its other end");
}

bool TransportCore::take(const MessageHeader& header, const Incoming& message) {
  check_address(header);
  if (free_receivings_ == nullptr)
    throw ProtocolError("more messages are in flight than two iterations have");
  Receiving& receiving = *free_receivings_;
  const std::uint64_t bytes = decode_shapes(header, message.header, receiving.shapes);
  if (header.tensors > 0 && buffers_ == nullptr) throw ProtocolError("it has tensors, none are expected");
  if (bytes != message.length) {
    throw ProtocolError("its payload has " + std::to_string(message.length) + " bytes, its tensors have " +
                        std::to_string(bytes));
  }
  if (message.rendezvous != (bytes > 0)) throw ProtocolError("its payload was not held back");
  receiving.id = header.id;
  receiving.source = header.source;
  receiving.token = header.token;
  receiving.descriptor = message.rendezvous ? message.data : nullptr;
  const auto handle = static_cast<std::uint64_t>(&receiving - receivings_.data());
  offers_.push({header.id, bytes, handle, receiving.shapes});
  receiving.state = Receiving::State::Offered;
  free_receivings_ = receiving.next;
  return message.rendezvous;
}

void TransportCore::accept(const Offer& offer, Slot slot) {
  if ((offer.handle & kLocal) != 0) {
    return accept_local(offer.id, static_cast<Slot>(offer.handle), slot);
  }
  Receiving& receiving = receivings_[offer.handle];
  receiving.slot = slot;
  for (const TensorShape& shape : receiving.shapes) receiving.payload.push_back(plane_.pool().take(shape));
  if (receiving.descriptor != nullptr) return pull(receiving);
  say_taken(receiving);
  arrive(receiving);
}

void TransportCore::accept_local(const MessageId& id, Slot source, Slot slot) {
  if (buffers_ != nullptr) incoming(id, slot) = std::exchange(outgoing(id, source), {});
  arrived({id, slot});
  sent({id, source});
}

void TransportCore::pull(Receiving& receiving) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &TransportCore::message_pulled;
  param.user_data = &receiving;
  const PayloadBuffer buffer = describe(receiving.payload, receiving.shapes, receiving.pieces, param);
  receiving.state = Receiving::State::Posting;
  ++in_ucx_;
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(plane_.worker(), receiving.descriptor, buffer.data, buffer.count, &param);
  if (!UCS_PTR_IS_PTR(request)) return pulled(receiving, UCS_PTR_STATUS(request));
  if (receiving.state == Receiving::State::Posting) {
    receiving.state = Receiving::State::Pulling;
    return;
  }
  ucp_request_free(request);
  pulled(receiving, receiving.status);
}

/// UCX may call back before it has returned the request, which cannot be freed until then.
void TransportCore::message_pulled(void* request, ucs_status_t status, std::size_t /*length*/,
                                   void* receiving) {
  auto& message = *static_cast<Receiving*>(receiving);
  if (message.state == Receiving::State::Posting) {
    message.status = status;
    message.state = Receiving::State::Pulled;
    return;
  }
  message.core->pulled(message, status);
  ucp_request_free(request);
}

void TransportCore::pulled(Receiving& receiving, ucs_status_t status) {
  --in_ucx_;
  if (closed_) {
    receiving.payload.clear();
  } else if (UCS_STATUS_IS_ERR(status)) {
    plane_.note_failed(receiving.source, to_string(receiving.id) + " cannot be fetched from it", status);
  } else {
    arrive(receiving);
  }
}

void TransportCore::say_taken(const Receiving& receiving) {
  reply_.clear();
  encode({plane_.job(), run_, plane_.rank(), receiving.id, receiving.token, 0}, {}, reply_);
  plane_.send_copy(MessageKind::Taken, receiving.source, reply_, {});
}

void TransportCore::arrive(Receiving& receiving) {
  if (buffers_ != nullptr) std::swap(incoming(receiving.id, receiving.slot), receiving.payload);
  receiving.payload.clear();
  arrived({receiving.id, receiving.slot});
  receiving.state = Receiving::State::Free;
  receiving.next = std::exchange(free_receivings_, &receiving);
}

void TransportCore::close() noexcept {
  closed_ = true;
  for (Receiving& receiving : receivings_) {
    if (receiving.state == Receiving::State::Offered && receiving.descriptor != nullptr)
      ucp_am_data_release(plane_.worker(), receiving.descriptor);
  }
  for (Sending& sending : sendings_) {
    if (!sending.in_ucx) continue;
    if (buffers_ != nullptr) sending.kept = std::exchange(outgoing(sending.id, sending.slot), {});
  }
}

}  // namespace sluice::ucx
