#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/device_rank.hpp"

namespace sluice::test {

/// One rank's part in a run in which every edge carries every microbatch both ways, in any order: it sends
/// when it has a slot, accepts when it has one, and looks at all that arrives. Its neighbours are at most one
/// iteration ahead.
/// @tparam Rank has slots and a transport, as DeviceRank
template <typename Rank = DeviceRank>
class DeviceTraffic {
 public:
  DeviceTraffic(const Pipeline& pipeline, StageId stage, Rank& rank, const DeviceSlots::Size& size,
                std::uint32_t seed)
      : pipeline_(pipeline), stage_(stage), rank_(rank), size_(size), random_(seed + stage) {
    for (Slot slot = 0; slot < size.slots; ++slot) free_.push_back(slot);
  }

  void run(std::uint64_t iterations) {
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration) run_iteration(iteration);
  }

  /// What a message carries: nothing that another one does, and as many elements as its microbatch says.
  static DeviceSlots::Payload payload_of(const MessageId& id, const DeviceSlots::Size& size) {
    DeviceSlots::Payload payload(size.tensors);
    for (std::size_t tensor = 0; tensor < size.tensors; ++tensor) {
      const auto elements =
          (id.microbatch * 7 + id.iteration + tensor) % static_cast<std::size_t>(size.elements + 1);
      for (std::size_t i = 0; i < elements; ++i) {
        payload[tensor].push_back(static_cast<double>(id.iteration * 1000 + id.microbatch) + 0.5 * id.edge +
                                  (id.direction == Direction::Gradient ? 0.25 : 0) +
                                  1e-4 * static_cast<double>(tensor * 1000 + i));
      }
    }
    return payload;
  }

 private:
  void run_iteration(std::uint64_t iteration) {
    std::vector<MessageId> to_send;
    missing_ = 0;
    for (EdgeId edge = 0; edge < pipeline_.edges().size(); ++edge) {
      const Edge& ends = pipeline_.edges()[edge];
      for (Microbatch m = 0; m < pipeline_.microbatches(); ++m) {
        if (pipeline_.stage_of(ends.from) == stage_) {
          to_send.push_back({iteration, m, edge, Direction::Activation});
          ++missing_;
        }
        if (pipeline_.stage_of(ends.to) == stage_) {
          to_send.push_back({iteration, m, edge, Direction::Gradient});
          ++missing_;
        }
      }
    }
    std::shuffle(to_send.begin(), to_send.end(), random_);
    unsent_ = to_send.size();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (missing_ > 0 || unsent_ > 0 || !to_send.empty()) {
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error("the messages do not come");
      if (!turn(iteration, to_send)) rest();
    }
  }

  bool turn(std::uint64_t iteration, std::vector<MessageId>& to_send) {
    bool any = take_in();
    // Some slots are kept for what comes in.
    if (!to_send.empty() && free_.size() > size_.slots / 2) {
      const Slot slot = take_slot();
      rank_.put(to_send.back(), slot, payload_of(to_send.back(), size_));
      rank_.transport().send(to_send.back(), slot);
      to_send.pop_back();
      any = true;
    }
    const auto next = std::find_if(offers_.begin(), offers_.end(),
                                   [&](const Offer& offer) { return offer.id.iteration == iteration; });
    if (next != offers_.end() && !free_.empty()) {
      rank_.transport().accept(*next, take_slot());
      offers_.erase(next);
      any = true;
    }
    return any;
  }

  bool take_in() {
    bool any = false;
    SendDone done;
    while (rank_.transport().poll(done)) {
      free_.push_back(done.slot);
      --unsent_;
      any = true;
    }
    Offer offer;
    while (rank_.transport().poll(offer)) {
      offers_.insert(offers_.begin() + static_cast<std::ptrdiff_t>(random_() % (offers_.size() + 1)), offer);
      any = true;
    }
    Arrival arrival;
    while (rank_.transport().poll(arrival)) {
      if (rank_.get(arrival.id, arrival.slot) != payload_of(arrival.id, size_))
        throw std::runtime_error("not what was sent: " + to_string(arrival.id));
      free_.push_back(arrival.slot);
      --missing_;
      any = true;
    }
    return any;
  }

  Slot take_slot() {
    std::swap(free_[random_() % free_.size()], free_.back());
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void rest() {
    const bool looks = rank_.transport().next_deadline() == kAnyTime;
    const Duration longest = looks ? std::chrono::microseconds(50) : std::chrono::milliseconds(100);
    rank_.sleep_until(clock_.now() + longest);
  }

  const Pipeline& pipeline_;
  StageId stage_;
  Rank& rank_;
  DeviceSlots::Size size_;
  std::mt19937 random_;
  host::SteadyClock clock_;
  std::vector<Slot> free_;
  std::vector<Offer> offers_;
  std::size_t missing_ = 0;
  std::size_t unsent_ = 0;
};

}  // namespace sluice::test
