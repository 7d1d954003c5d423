#include "sluice/host/in_process_group.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/host/spsc_ring.hpp"

namespace sluice::host {

/// Messages from one member to another. A message lies where it was written until the next but one is
/// fetched, so the reader need not copy it.
class InProcessGroup::Ring {
 public:
  explicit Ring(const agree::ChannelNeeds& needs)
      : longest_(needs.longest),
        sizes_(needs.unread),
        // What the ring holds at most, the message being written and the one being read.
        bytes_((std::bit_ceil(needs.unread + 1) + 1) * needs.longest) {}

  bool push(std::span<const std::byte> message) {
    std::copy(message.begin(), message.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(write_));
    if (!sizes_.push(message.size())) return false;
    write_ = after(write_);
    return true;
  }

  bool pop(std::span<const std::byte>& message) {
    std::size_t size = 0;
    if (!sizes_.pop(size)) return false;
    message = std::span(bytes_).subspan(read_, size);
    read_ = after(read_);
    return true;
  }

 private:
  [[nodiscard]] std::size_t after(std::size_t place) const {
    return place + longest_ == bytes_.size() ? 0 : place + longest_;
  }

  std::size_t longest_;
  SpscRing<std::size_t> sizes_;
  std::vector<std::byte> bytes_;
  /// The sender's and the receiver's.
  alignas(64) std::size_t write_ = 0;
  alignas(64) std::size_t read_ = 0;
};

class InProcessGroup::Endpoint final : public agree::GroupChannel {
 public:
  Endpoint(std::uint32_t member, const std::vector<Wake*>& wakes, std::size_t longest,
           const std::vector<std::unique_ptr<Ring>>& rings)
      : member_(member), wakes_(wakes), longest_(longest), rings_(rings) {}

  [[nodiscard]] std::uint32_t members() const noexcept override {
    return static_cast<std::uint32_t>(wakes_.size());
  }
  [[nodiscard]] std::uint32_t member() const noexcept override { return member_; }

  void send(std::uint32_t to, std::span<const std::byte> message) override {
    if (message.size() > longest_) refuse(to, "is longer than the channel's messages");
    if (!rings_[to * wakes_.size() + member_]->push(message)) refuse(to, "finds too many that were not read");
    if (wakes_[to] != nullptr) wakes_[to]->notify();
  }

  bool poll(std::uint32_t& from, std::span<const std::byte>& message) override {
    for (std::uint32_t i = 0; i < members(); ++i) {
      // Who was served last comes last.
      next_ = next_ + 1 == members() ? 0 : next_ + 1;
      if (next_ == member_ || !rings_[member_ * wakes_.size() + next_]->pop(message)) continue;
      from = next_;
      return true;
    }
    return false;
  }

 private:
  [[noreturn]] void refuse(std::uint32_t to, const char* reason) const {
    throw Error("a message from member " + std::to_string(member_) + " to member " + std::to_string(to) +
                " of a group " + reason);
  }

  std::uint32_t member_;
  std::vector<Wake*> wakes_;
  std::size_t longest_;
  const std::vector<std::unique_ptr<Ring>>& rings_;
  std::uint32_t next_ = 0;
};

InProcessGroup::InProcessGroup(const std::vector<Wake*>& wakes, const agree::ChannelNeeds& needs) {
  if (wakes.empty()) throw ConfigError("group", "has no members");
  for (std::size_t to = 0; to < wakes.size(); ++to) {
    for (std::size_t from = 0; from < wakes.size(); ++from)
      rings_.push_back(from == to ? nullptr : std::make_unique<Ring>(needs));
  }
  for (std::uint32_t member = 0; member < wakes.size(); ++member)
    endpoints_.push_back(std::make_unique<Endpoint>(member, wakes, needs.longest, rings_));
}

InProcessGroup::~InProcessGroup() = default;

agree::GroupChannel& InProcessGroup::channel(std::uint32_t member) { return *endpoints_[member]; }

}  // namespace sluice::host
