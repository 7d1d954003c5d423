#pragma once

#include <deque>

#include "sluice/transport.hpp"

namespace sluice::test {

/// A transport that gets on, and keeps what it finds, also when nobody asks for it: a put needs both ends.
class DrivenTransport final : public Transport {
 public:
  /// @param transport outlives this
  explicit DrivenTransport(Transport& transport) : transport_(transport) {}

  void drive() {
    fetch(offers_);
    fetch(arrivals_);
    fetch(dones_);
  }

  bool poll(Offer& offer) override { return take(offers_, offer); }
  void accept(const Offer& offer, Slot slot) override { transport_.accept(offer, slot); }
  bool poll(Arrival& arrival) override { return take(arrivals_, arrival); }
  void send(const MessageId& id, Slot slot) override { transport_.send(id, slot); }
  bool poll(SendDone& done) override { return take(dones_, done); }
  [[nodiscard]] Time next_deadline() const override { return transport_.next_deadline(); }

 private:
  template <typename Item>
  void fetch(std::deque<Item>& items) {
    Item item;
    while (transport_.poll(item)) items.push_back(item);
  }
  template <typename Item>
  bool take(std::deque<Item>& items, Item& item) {
    drive();
    if (items.empty()) return false;
    item = items.front();
    items.pop_front();
    return true;
  }

  Transport& transport_;
  std::deque<Offer> offers_;
  std::deque<Arrival> arrivals_;
  std::deque<SendDone> dones_;
};

}  // namespace sluice::test
