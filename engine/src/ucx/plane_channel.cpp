#include "plane_channel.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::ucx {
namespace {

constexpr std::size_t kFirstRoom = 16;
/// A member that is so far ahead is not answered any more.
constexpr std::size_t kMostRoom = std::size_t{1} << 20U;
/// Above this, UCX would cut a message into pieces and keep them in memory of its own.
constexpr std::size_t kLongest = std::size_t{1} << 20U;

}  // namespace

PlaneChannel::PlaneChannel(Plane& plane, std::uint32_t run, std::vector<std::uint32_t> ranks_of_group,
                           std::size_t longest)
    : plane_(plane), run_(run), longest_(longest), lines_(ranks_of_group.size()) {
  if (longest > kLongest)
    throw ConfigError("longest", std::to_string(longest) + " bytes, at most " + std::to_string(kLongest));
  const std::set<std::uint32_t> distinct(ranks_of_group.begin(), ranks_of_group.end());
  if (distinct.size() != ranks_of_group.size()) throw ConfigError("ranks", "one rank twice in a group");
  const auto own = std::find(ranks_of_group.begin(), ranks_of_group.end(), plane.rank());
  if (own == ranks_of_group.end())
    throw ConfigError("ranks", "rank " + std::to_string(plane.rank()) + " is not in its own group");
  member_ = static_cast<std::uint32_t>(own - ranks_of_group.begin());
  for (std::uint32_t member = 0; member < lines_.size(); ++member) {
    Line& line = lines_[member];
    line.rank = ranks_of_group[member];
    if (line.rank >= plane.ranks())
      throw ConfigError("ranks", "there is no rank " + std::to_string(line.rank));
    if (member == member_) continue;
    grow(line, kFirstRoom);
    plane.endpoint(line.rank);
  }
  fetched_.resize(longest_);
  plane_.open(run_, *this);
}

PlaneChannel::~PlaneChannel() { plane_.close_channel(run_); }

void PlaneChannel::send(std::uint32_t to, std::span<const std::byte> message) {
  if (to >= members() || to == member_) throw Error("member " + std::to_string(to) + " cannot be sent to");
  if (message.size() > longest_) {
    throw Error("a message of " + std::to_string(message.size()) + " bytes in a channel for at most " +
                std::to_string(longest_));
  }
  Line& line = lines_[to];
  std::array<std::byte, kChannelHeaderBytes> header;
  encode(ChannelHeader{plane_.job(), run_, plane_.rank(), line.sent}, header);
  plane_.send_copy(MessageKind::Channel, line.rank, header, message);
  ++line.sent;
}

PlaneChannel::Line& PlaneChannel::line_of(std::uint32_t rank) {
  const auto line =
      std::find_if(lines_.begin(), lines_.end(), [rank](const Line& each) { return each.rank == rank; });
  if (line == lines_.end() || rank == plane_.rank()) throw ProtocolError("it is not of the group");
  return *line;
}

void PlaneChannel::take(const ChannelHeader& header, std::span<const std::byte> message) {
  Line& line = line_of(header.source);
  if (message.size() > longest_) {
    throw ProtocolError("it has " + std::to_string(message.size()) + " bytes, at most " +
                        std::to_string(longest_) + " are expected");
  }
  // Also true of what was fetched already: the difference wraps.
  const std::uint64_t ahead = header.sequence - line.next;
  if (ahead >= kMostRoom) throw ProtocolError("it is out of sequence");
  while (ahead >= line.lengths.size()) grow(line, 2 * line.lengths.size());
  const std::size_t place = header.sequence & (line.lengths.size() - 1);
  if (line.lengths[place] != kAbsent) throw ProtocolError("it came twice");
  std::copy(message.begin(), message.end(),
            line.bytes.begin() + static_cast<std::ptrdiff_t>(place * longest_));
  line.lengths[place] = message.size();
}

/// @param room a power of two
void PlaneChannel::grow(Line& line, std::size_t room) const {
  std::vector<std::byte> bytes(room * longest_);
  std::vector<std::size_t> lengths(room, kAbsent);
  const std::size_t old = line.lengths.size();
  for (std::uint64_t sequence = line.next; sequence < line.next + old; ++sequence) {
    const std::size_t from = sequence & (old - 1);
    const std::size_t to = sequence & (room - 1);
    lengths[to] = line.lengths[from];
    std::copy_n(line.bytes.begin() + static_cast<std::ptrdiff_t>(from * longest_), longest_,
                bytes.begin() + static_cast<std::ptrdiff_t>(to * longest_));
  }
  line.bytes = std::move(bytes);
  line.lengths = std::move(lengths);
}

bool PlaneChannel::fetch(std::uint32_t& from, std::span<const std::byte>& message) {
  for (std::uint32_t i = 0; i < members(); ++i) {
    const std::uint32_t member = (turn_ + i) % members();
    Line& line = lines_[member];
    if (member == member_) continue;
    const std::size_t place = line.next & (line.lengths.size() - 1);
    const std::size_t length = std::exchange(line.lengths[place], kAbsent);
    if (length == kAbsent) continue;
    std::copy_n(line.bytes.begin() + static_cast<std::ptrdiff_t>(place * longest_), length, fetched_.begin());
    ++line.next;
    from = member;
    message = {fetched_.data(), length};
    turn_ = member + 1;
    return true;
  }
  return false;
}

bool PlaneChannel::poll(std::uint32_t& from, std::span<const std::byte>& message) {
  if (fetch(from, message)) return true;
  plane_.progress();
  return fetch(from, message);
}

}  // namespace sluice::ucx
