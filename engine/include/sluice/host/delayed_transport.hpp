#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/host/delay_model.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::host {

/// Makes the messages that reach a stage late. Only the arrival is delayed, never the sender, and
/// messages between chunks of the stage itself are not.
class DelayedTransport final : public Transport {
 public:
  /// @param compute_average of the stage, for the levels j1 to j3
  DelayedTransport(Transport& inner, const Pipeline& pipeline, StageId stage, const Clock& clock,
                   DelayModel model, std::uint64_t seed, std::function<Duration()> compute_average);

  bool poll(Offer& offer) override;
  void accept(const Offer& offer, Slot slot) override { inner_.accept(offer, slot); }
  bool poll(Arrival& arrival) override { return inner_.poll(arrival); }
  void send(const MessageId& id, Slot slot) override { inner_.send(id, slot); }
  bool poll(SendDone& done) override { return inner_.poll(done); }
  /// When the next message stops being late.
  [[nodiscard]] Time next_deadline() const override;

 private:
  struct Late {
    Time due;
    std::uint64_t sequence;
    Offer offer;

    friend bool operator>(const Late& a, const Late& b) {
      return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
    }
  };

  [[nodiscard]] bool local(EdgeId edge) const;

  Transport& inner_;
  const Pipeline& pipeline_;
  StageId stage_;
  const Clock& clock_;
  DelayModel model_;
  std::uint64_t seed_;
  std::function<Duration()> compute_average_;
  std::uint64_t sequence_ = 0;
  /// A heap, the next due first.
  std::vector<Late> late_;
};

}  // namespace sluice::host
