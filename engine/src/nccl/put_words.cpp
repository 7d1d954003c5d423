#include "put_words.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "put_transport_impl.hpp"
#include "sluice/error.hpp"

namespace sluice::nccl {
namespace {

/// @param bytes as many as the items have
template <typename Item>
void read_items(std::span<const std::byte> bytes, std::vector<Item>& items) {
  items.resize(bytes.size() / sizeof(Item));
  if (!bytes.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
}

}  // namespace

/// Takes in what the neighbours have said.
void PutTransport::Impl::look() {
  std::uint32_t from = 0;
  std::span<const std::byte> bytes;
  while (messages_.poll(from, bytes)) take(from, bytes);
  advance_senders();
}

void PutTransport::Impl::take(std::uint32_t from, std::span<const std::byte> bytes) {
  StageId stage = 0;
  while (stage < ranks_.size() && (ranks_[stage] != from || !neighbour_[stage])) ++stage;
  PutWord word;
  if (stage == ranks_.size() || bytes.size() < sizeof word)
    throw ProtocolError(
        fmt::format("{}: {} bytes from rank {} are no word of a neighbour", where(), bytes.size(), from));
  std::memcpy(&word, bytes.data(), sizeof word);
  const std::span<const std::byte> items = bytes.subspan(sizeof word);
  switch (word.kind) {
    case PutWord::Kind::Offer:
      return take_offer(stage, word, items);
    case PutWord::Kind::Grant:
      return take_grant(stage, word, items);
    case PutWord::Kind::Left:
      return take_farewell(stage);
    case PutWord::Kind::GaveUp:
      throw Error(fmt::format("{}: {} has given up: {}", where(), peer(stage), under_way(stage)));
  }
  throw ProtocolError(fmt::format("{}: {} says something unknown", where(), peer(stage)));
}

void PutTransport::Impl::take_offer(StageId from, const PutWord& word, std::span<const std::byte> shapes) {
  check_offer(from, word, shapes.size());
  PutReceiving& message = take_receiving();
  message.id = word.id;
  message.from = from;
  message.token = word.token;
  message.local = nullptr;
  read_items(shapes, message.shapes);
  file_offer(message);
}

void PutTransport::Impl::check_offer(StageId from, const PutWord& word, std::size_t bytes) const {
  const MessageId& id = word.id;
  if (id.edge >= ends_.size() || !cuda::is_known(id.direction) || id.microbatch >= pipeline_.microbatches() ||
      ends_of(id).sender(id.direction) != from || ends_of(id).receiver(id.direction) != stage_) {
    throw ProtocolError(fmt::format("{}: {} offers it the {}, which does not lead there", where(), peer(from),
                                    to_string(id)));
  }
  if (bytes != word.tensors * sizeof(TensorShape) || bytes > word_.size()) {
    throw ProtocolError(fmt::format("{}: the offer of {} from {} has {} bytes for {} tensors", where(),
                                    to_string(id), peer(from), bytes, word.tensors));
  }
}

void PutTransport::Impl::take_grant(StageId from, const PutWord& word, std::span<const std::byte> places) {
  const auto refuse = [&] {
    const bool known = word.id.edge < ends_.size();
    return ProtocolError(fmt::format("{}: {} grants the {}, which was not offered to it like that", where(),
                                     peer(from), known ? to_string(word.id) : "message"));
  };
  if (word.token >= sendings_.size()) throw refuse();
  PutSending& message = sendings_[word.token];
  if (!message.used || message.granted || message.local != nullptr || message.id != word.id ||
      ends_of(message.id).receiver(message.id.direction) != from || word.tensors != message.tensors->size() ||
      places.size() != word.tensors * sizeof(std::uint64_t)) {
    throw refuse();
  }
  read_items(places, message.places);
  check_places(from, message);
  message.granted = true;
  ++granted_;
  sender_of(message.id)->grant(message);
}

/// What it was granted has arrived before it leaves.
void PutTransport::Impl::take_farewell(StageId from) {
  left_[from] = true;
  for (const PutSending& sending : sendings_) {
    if (sending.used && !sending.granted && ends_of(sending.id).receiver(sending.id.direction) == from) {
      throw Error(fmt::format("{}: {} has left too early: {}, has not been taken", where(), peer(from),
                              to_string(sending.id)));
    }
  }
}

void PutTransport::Impl::say_offer(const PutSending& message) {
  const std::size_t tensors = message.tensors->size();
  for (std::size_t i = 0; i < tensors; ++i) {
    std::memcpy(word_.data() + sizeof(PutWord) + i * sizeof(TensorShape), &(*message.tensors)[i].shape,
                sizeof(TensorShape));
  }
  say(ends_of(message.id).receiver(message.id.direction),
      {PutWord::Kind::Offer, static_cast<std::uint32_t>(sendings_.number_of(message)), message.id, tensors},
      tensors * sizeof(TensorShape));
}

void PutTransport::Impl::say_grant(const PutReceiving& message) {
  const auto& tensors = ends_of(message.id).incoming(slots_, message.id.direction, message.slot);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto place = static_cast<std::uint64_t>(tensors[i].data - slots_.block().data());
    std::memcpy(word_.data() + sizeof(PutWord) + i * sizeof place, &place, sizeof place);
  }
  say(message.from, {PutWord::Kind::Grant, message.token, message.id, tensors.size()},
      tensors.size() * sizeof(std::uint64_t));
}

/// @param bytes what follows the word, already in its place
void PutTransport::Impl::say(StageId to, const PutWord& word, std::size_t bytes) {
  std::memcpy(word_.data(), &word, sizeof word);
  messages_.send(rank_of(to), std::span(word_).first(sizeof word + bytes));
}

void PutTransport::Impl::say_to_all(PutWord::Kind kind) {
  for (StageId stage = 0; stage < ranks_.size(); ++stage) {
    if (neighbour_[stage] && !left_[stage]) say(stage, {kind, 0, {}, 0}, 0);
  }
}

}  // namespace sluice::nccl
