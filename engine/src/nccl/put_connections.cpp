#include "put_connections.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <type_traits>

#include "../cuda/meeting.hpp"
#include "sluice/error.hpp"

namespace sluice::nccl {
namespace {

/// What a rank tells the others when they connect. The ids of the ways that it sends on follow.
struct PutCard {
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t version = kVersion;
  StageId stage = 0;
  /// Of its pipeline.
  std::array<std::uint32_t, 3> extent{};
  std::uint64_t block_bytes = 0;
};

struct WayId {
  std::uint32_t way = 0;
  /// Of a message.
  std::uint32_t tensors = 0;
  ncclUniqueId id{};
};
static_assert(std::is_trivially_copyable_v<PutCard> && std::is_trivially_copyable_v<WayId>);

/// Of all ranks.
using Cards = std::vector<std::vector<std::byte>>;

/// A way between this rank and another one.
struct Way {
  EdgeId edge = 0;
  Direction direction = Direction::Activation;
  StageId from = 0;
  StageId to = 0;
};

/// In the same order on all ranks, so that none waits for one that waits for it.
std::vector<Way> ways_of(StageId stage, const std::vector<cuda::EdgeEnds>& ends) {
  std::vector<Way> ways;
  for (EdgeId edge = 0; edge < ends.size(); ++edge) {
    for (const Direction direction : {Direction::Activation, Direction::Gradient}) {
      const Way way{edge, direction, ends[edge].sender(direction), ends[edge].receiver(direction)};
      if (way.from != way.to && (way.from == stage || way.to == stage)) ways.push_back(way);
    }
  }
  return ways;
}

/// Carries out this rank's part. If a rank fails, all do: with their own error, or else with the other's.
void all_or_none(const cuda::AllGather& all_gather, const std::function<void()>& part) {
  std::exception_ptr own;
  std::string text;
  try {
    part();
  } catch (const std::exception& error) {
    own = std::current_exception();
    text = error.what();
  }
  try {
    cuda::agree_on_success(text, all_gather);
  } catch (const Error&) {
    if (own != nullptr) std::rethrow_exception(own);
    throw;
  }
}

void check_member(const PutMember& member) {
  const agree::GroupChannel& messages = member.messages;
  cuda::check_place(member.pipeline, member.stage, member.rank_of_stage, messages.members());
  if (const std::uint32_t rank = member.rank_of_stage[member.stage]; rank != messages.member()) {
    throw ConfigError("ranks", fmt::format("stage {} is rank {}'s, but the channel is rank {}'s",
                                           member.stage, rank, messages.member()));
  }
}

/// Tensors of a message at this rank's end.
std::uint32_t tensors_of(const PutMember& member, const cuda::EdgeEnds& ends, const Way& way) {
  const auto& tensors = way.from == member.stage ? ends.outgoing(member.slots, way.direction, 0)
                                                 : ends.incoming(member.slots, way.direction, 0);
  return static_cast<std::uint32_t>(tensors.size());
}

std::vector<std::byte> own_card(const PutMember& member, std::span<const Way> ways,
                                const std::vector<cuda::EdgeEnds>& ends) {
  const PutCard card{PutCard::kVersion, member.stage, cuda::extent_of(member.pipeline),
                     member.slots.block().size()};
  const auto card_bytes = std::as_bytes(std::span(&card, 1));
  std::vector<std::byte> bytes(card_bytes.begin(), card_bytes.end());
  for (const Way& way : ways) {
    if (way.from != member.stage) continue;
    const WayId id{way_of(way.edge, way.direction), tensors_of(member, ends[way.edge], way),
                   make_unique_id()};
    const auto id_bytes = std::as_bytes(std::span(&id, 1));
    bytes.insert(bytes.end(), id_bytes.begin(), id_bytes.end());
  }
  return bytes;
}

/// @param with names the two ranks, in errors
PutCard read_card(std::span<const std::byte> bytes, const std::string& with) {
  PutCard card;
  if (bytes.size() >= sizeof card) std::memcpy(&card, bytes.data(), sizeof card);
  if (bytes.size() < sizeof card || (bytes.size() - sizeof card) % sizeof(WayId) != 0 ||
      card.version != PutCard::kVersion) {
    throw Error(with + "it runs another version of Sluice, or no NCCL transport");
  }
  return card;
}

/// The sender's id of a way.
WayId read_id(const Cards& cards, const PutMember& member, const Way& way) {
  const std::uint32_t rank = member.rank_of_stage[way.from];
  const std::span<const std::byte> bytes = cards[rank];
  const std::uint32_t number = way_of(way.edge, way.direction);
  for (std::size_t at = sizeof(PutCard); at + sizeof(WayId) <= bytes.size(); at += sizeof(WayId)) {
    WayId id;
    std::memcpy(&id, bytes.data() + at, sizeof id);
    if (id.way == number) return id;
  }
  throw ConfigError("pipeline", fmt::format("rank {} knows of no {}", rank,
                                            name_of_way(member.pipeline, way.edge, way.direction)));
}

/// @throws ConfigError saying what keeps this rank and that of the other stage apart
void check_card(const Cards& cards, StageId other, const PutMember& member) {
  const std::uint32_t own_rank = member.rank_of_stage[member.stage];
  const std::uint32_t rank = member.rank_of_stage[other];
  const std::string with = fmt::format("rank {} cannot join with rank {}: ", own_rank, rank);
  const PutCard card = read_card(cards[rank], with);
  if (card.stage != other)
    throw ConfigError("ranks", fmt::format("{}it has stage {}, expected {}", with, card.stage, other));
  if (card.extent != cuda::extent_of(member.pipeline))
    throw ConfigError("pipeline", with + "it has other chunks, edges or microbatches");
  const std::size_t own = member.slots.block().size();
  if (card.block_bytes != own) {
    throw ConfigError("slots", fmt::format("{}the block has {} bytes here and {} there, but windows have one "
                                           "size: make it with nccl::window_block",
                                           with, own, card.block_bytes));
  }
}

void check_neighbours(const PutMember& member, std::span<const Way> ways,
                      const std::vector<cuda::EdgeEnds>& ends, const Cards& cards) {
  if (cards.size() != member.messages.members()) {
    throw ConfigError(
        "ranks", fmt::format("{} meet, but the channel has {}", cards.size(), member.messages.members()));
  }
  for (const Way& way : ways) {
    check_card(cards, way.from == member.stage ? way.to : way.from, member);
    const std::uint32_t own = tensors_of(member, ends[way.edge], way);
    const WayId sent = read_id(cards, member, way);
    if (sent.tensors != own) {
      throw ConfigError(
          "layouts", fmt::format("{} have {} tensors at one end and {} at the other",
                                 name_of_way(member.pipeline, way.edge, way.direction), own, sent.tensors));
    }
  }
}

PutLine::Place place_of(const PutMember& member, const Way& way) {
  const auto& ranks = member.rank_of_stage;
  const bool sends = way.from == member.stage;
  const StageId other = sends ? way.to : way.from;
  return {sends ? PutLine::kSender : PutLine::kReceiver,
          fmt::format("rank {}: {} {} rank {} (stage {})", ranks[member.stage],
                      name_of_way(member.pipeline, way.edge, way.direction), sends ? "to" : "from",
                      ranks[other], other),
          member.slots.block().data(), member.slots.block().size()};
}

void join(PutConnections& connections, const PutMember& member, const Way& way, const Cards& cards,
          Duration patience) {
  const std::uint32_t number = way_of(way.edge, way.direction);
  const ncclUniqueId id = read_id(cards, member, way).id;
  if (way.from == member.stage) {
    connections.senders[number] = std::make_unique<PutSender>(place_of(member, way), id, patience);
  } else {
    connections.receivers[number] = std::make_unique<PutReceiver>(place_of(member, way), id, patience);
  }
}

}  // namespace

void PutConnections::abort() noexcept {
  for (const auto& sender : senders) {
    if (sender != nullptr) sender->line().abort();
  }
  for (const auto& receiver : receivers) {
    if (receiver != nullptr) receiver->line().abort();
  }
}

std::string name_of_way(const Pipeline& pipeline, EdgeId edge, Direction direction) {
  return fmt::format("{} of edge {} (chunk {} to {})",
                     direction == Direction::Activation ? "activations" : "gradients", edge,
                     pipeline.edges()[edge].from, pipeline.edges()[edge].to);
}

PutConnections connect(const PutMember& member, const std::vector<cuda::EdgeEnds>& ends,
                       const cuda::AllGather& all_gather, Duration patience) {
  std::vector<Way> ways;
  std::vector<std::byte> own;
  all_or_none(all_gather, [&] {
    check_member(member);
    ways = ways_of(member.stage, ends);
    own = own_card(member, ways, ends);
  });
  const auto cards = all_gather(own);
  all_or_none(all_gather, [&] { check_neighbours(member, ways, ends, cards); });
  PutConnections connections;
  connections.senders.resize(2 * ends.size());
  connections.receivers.resize(2 * ends.size());
  try {
    all_or_none(all_gather, [&] {
      for (const Way& way : ways) join(connections, member, way, cards, patience);
    });
  } catch (...) {
    connections.abort();
    throw;
  }
  return connections;
}

}  // namespace sluice::nccl
