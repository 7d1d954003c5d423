#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transport_core.hpp"

namespace sluice::ucx {

/// A transport as its user holds it. What UCX still uses when it ends stays with the plane.
class PlaneTransport final : public Transport {
 public:
  PlaneTransport(Plane& plane, std::uint32_t run, const Pipeline& pipeline, StageId stage,
                 std::vector<std::uint32_t> rank_of_stage, host::SlotBuffers* buffers);
  ~PlaneTransport() override;
  PlaneTransport(const PlaneTransport&) = delete;
  PlaneTransport& operator=(const PlaneTransport&) = delete;

  bool poll(Offer& offer) override { return found(offer); }
  void accept(const Offer& offer, Slot slot) override { core_->accept(offer, slot); }
  bool poll(Arrival& arrival) override { return found(arrival); }
  void send(const MessageId& id, Slot slot) override { core_->send(id, slot); }
  bool poll(SendDone& done) override { return found(done); }
  [[nodiscard]] Time next_deadline() const override { return kNever; }

 private:
  template <typename Item>
  bool found(Item& item) {
    if (core_->poll(item)) return true;
    plane_.progress();
    return core_->poll(item);
  }

  Plane& plane_;
  std::uint32_t run_;
  std::unique_ptr<TransportCore> core_;
};

}  // namespace sluice::ucx
