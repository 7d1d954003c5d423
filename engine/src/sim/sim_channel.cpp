#include "sluice/sim/sim_channel.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace sluice::sim {
namespace {

struct PostedBytes {
  Time due{0};
  std::uint64_t sequence = 0;
  std::vector<std::byte> bytes;
};

}  // namespace

class SimChannels::Endpoint final : public agree::GroupChannel {
 public:
  Endpoint(SimChannels& group, std::uint32_t member, std::uint32_t members)
      : group_(group), member_(member), inbox_(members) {}

  [[nodiscard]] std::uint32_t members() const noexcept override {
    return static_cast<std::uint32_t>(inbox_.size());
  }
  [[nodiscard]] std::uint32_t member() const noexcept override { return member_; }

  void send(std::uint32_t to, std::span<const std::byte> message) override {
    std::deque<PostedBytes>& queue = group_.endpoints_[to]->inbox_[member_];
    Time due = group_.clock_.now() + group_.delay_(member_, to);
    if (!queue.empty()) due = std::max(due, queue.back().due);
    queue.push_back({due, group_.sent_++, {message.begin(), message.end()}});
    group_.timetable_.add(due, group_.first_rank_ + to);
  }

  bool poll(std::uint32_t& from, std::span<const std::byte>& message) override {
    std::deque<PostedBytes>* first = nullptr;
    for (std::uint32_t sender = 0; sender < inbox_.size(); ++sender) {
      std::deque<PostedBytes>& queue = inbox_[sender];
      if (queue.empty() || queue.front().due > group_.clock_.now()) continue;
      const auto key = [](const PostedBytes& posted) { return std::pair(posted.due, posted.sequence); };
      if (first != nullptr && key(first->front()) < key(queue.front())) continue;
      first = &queue;
      from = sender;
    }
    if (first == nullptr) return false;
    read_ = std::move(first->front().bytes);
    first->pop_front();
    message = read_;
    return true;
  }

 private:
  SimChannels& group_;
  std::uint32_t member_;
  /// By sender.
  std::vector<std::deque<PostedBytes>> inbox_;
  std::vector<std::byte> read_;
};

SimChannels::SimChannels(std::uint32_t members, std::uint32_t first_rank, const Clock& clock,
                         Timetable& timetable, HopDelay delay)
    : first_rank_(first_rank), clock_(clock), timetable_(timetable), delay_(std::move(delay)) {
  for (std::uint32_t member = 0; member < members; ++member)
    endpoints_.push_back(std::make_unique<Endpoint>(*this, member, members));
}

SimChannels::~SimChannels() = default;

agree::GroupChannel& SimChannels::channel(std::uint32_t member) { return *endpoints_[member]; }

}  // namespace sluice::sim
