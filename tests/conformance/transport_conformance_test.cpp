#include "transport_conformance.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "dlpack_tensor.hpp"
#include "sluice/host/delayed_transport.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/in_process_network.hpp"
#include "sluice/sim/sim_network.hpp"
#if SLUICE_HAVE_UCX
#include "rank_threads.hpp"
#include "sluice/ucx/message_plane.hpp"
#endif

/// The transports that need no device.
namespace sluice::conformance {
namespace {

using namespace std::chrono_literals;

/// The payload of a message in a host's slot.
host::Payload& payload_at(const Pipeline& pipeline, host::SlotBuffer& buffer, const MessageId& id,
                          bool outgoing) {
  const Edge& edge = pipeline.edges()[id.edge];
  const std::size_t at_tail = host::place_of(pipeline.out_edges(edge.from), id.edge);
  const std::size_t at_head = host::place_of(pipeline.in_edges(edge.to), id.edge);
  if (id.direction == Direction::Activation)
    return outgoing ? buffer.outputs[at_tail] : buffer.inputs[at_head];
  return outgoing ? buffer.input_grads[at_head] : buffer.output_grads[at_tail];
}

/// Payloads in the slots of every stage.
class HostPayloads {
 public:
  explicit HostPayloads(const Pipeline& pipeline) : pipeline_(pipeline) {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage)
      buffers_.push_back(std::make_unique<host::SlotBuffers>(pipeline, stage, 1000));
  }

  host::SlotBuffers& of(StageId stage) { return *buffers_[stage]; }
  void put(StageId stage, const MessageId& id, Slot slot, const Payload& payload) {
    host::Payload& tensors = payload_at(pipeline_, of(stage)[slot], id, true);
    tensors.clear();
    for (const auto& elements : payload) tensors.push_back(test::make_vector(elements));
  }
  Payload get(StageId stage, const MessageId& id, Slot slot) {
    Payload payload;
    for (const host::TensorPtr& tensor : payload_at(pipeline_, of(stage)[slot], id, false)) {
      const auto* elements = static_cast<const double*>(tensor->dl_tensor.data);
      payload.emplace_back(elements, elements + tensor->dl_tensor.shape[0]);
    }
    return payload;
  }

 private:
  const Pipeline& pipeline_;
  std::vector<std::unique_ptr<host::SlotBuffers>> buffers_;
};

/// Stages that are threads of one process; everything is there at once.
class InProcessRig {
 public:
  explicit InProcessRig(const Pipeline& pipeline, HostPayloads* payloads = nullptr)
      : wakes_(pipeline.stages()) {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage)
      members_.push_back({payloads != nullptr ? &payloads->of(stage) : nullptr, &wakes_[stage]});
    network_ = std::make_unique<host::InProcessNetwork>(pipeline, members_);
  }

  Transport& endpoint(StageId stage) { return network_->endpoint(stage); }
  void pass_time() {}

 private:
  std::vector<host::EventWake> wakes_;
  std::vector<host::InProcessNetwork::Member> members_;
  std::unique_ptr<host::InProcessNetwork> network_;
};

class BufferedRig : public HostPayloads, public InProcessRig {
 public:
  explicit BufferedRig(const Pipeline& pipeline) : HostPayloads(pipeline), InProcessRig(pipeline, this) {}
};

class DelayedRig {
 public:
  explicit DelayedRig(const Pipeline& pipeline) : inner_(pipeline) {
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      endpoints_.push_back(std::make_unique<host::DelayedTransport>(
          inner_.endpoint(stage), pipeline, stage, clock_, host::DelayModel::parse("tail:0.7,5"), 1,
          [] { return Duration{0}; }));
    }
  }

  Transport& endpoint(StageId stage) { return *endpoints_[stage]; }
  void pass_time() {
    Time next = kNever;
    for (const auto& endpoint : endpoints_) next = std::min(next, endpoint->next_deadline());
    if (next != kNever) clock_.advance_to(std::max(next, clock_.now()));
  }

 private:
  sim::VirtualClock clock_;
  InProcessRig inner_;
  std::vector<std::unique_ptr<host::DelayedTransport>> endpoints_;
};

class SimRig {
 public:
  explicit SimRig(const Pipeline& pipeline) : network_(pipeline, clock_, timetable_, delay_of) {}

  Transport& endpoint(StageId stage) { return network_.endpoint(stage); }
  void pass_time() {
    if (timetable_.empty()) return;
    clock_.advance_to(timetable_.next_time());
    timetable_.pop();
  }

 private:
  static Duration delay_of(const sim::Transit& transit) {
    return std::chrono::milliseconds(transit.id.microbatch % 3);
  }

  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  sim::SimNetwork network_;
};

#if SLUICE_HAVE_UCX
/// Stages with a message plane each, as processes have them. Messages need a look or two at both ends.
class UcxRig {
 public:
  explicit UcxRig(const Pipeline& pipeline, HostPayloads* payloads = nullptr)
      : planes_(pipeline.stages()), endpoints_(pipeline.stages()) {
    test::on_each_rank(pipeline.stages(), [&](process::Bootstrap& bootstrap) {
      planes_[bootstrap.rank()] = std::make_unique<ucx::MessagePlane>(bootstrap, ucx::PlaneOptions{});
    });
    std::vector<std::uint32_t> ranks(pipeline.stages());
    std::iota(ranks.begin(), ranks.end(), 0);
    for (StageId stage = 0; stage < pipeline.stages(); ++stage) {
      host::SlotBuffers* buffers = payloads != nullptr ? &payloads->of(stage) : nullptr;
      endpoints_[stage] = planes_[stage]->transport(1, pipeline, stage, ranks, buffers);
    }
    connect(ranks);
  }

  /// All planes end in this thread: none can wait for another.
  ~UcxRig() {
    for (const auto& plane : planes_) plane->abandon();
  }
  UcxRig(const UcxRig&) = delete;
  UcxRig& operator=(const UcxRig&) = delete;

  Transport& endpoint(StageId stage) { return *endpoints_[stage]; }
  void pass_time() {
    for (const auto& plane : planes_) plane->progress();
  }

 private:
  /// A word from each rank to each: UCX connects when it is first needed, in its own time.
  void connect(const std::vector<std::uint32_t>& ranks) {
    std::vector<std::unique_ptr<agree::GroupChannel>> channels;
    for (const auto& plane : planes_) channels.push_back(plane->channel(2, ranks, 0));
    for (const std::uint32_t from : ranks) {
      for (const std::uint32_t to : ranks) {
        if (from != to) channels[from]->send(to, {});
      }
    }
    const auto until = std::chrono::steady_clock::now() + 20s;
    std::size_t missing = ranks.size() * (ranks.size() - 1);
    while (missing > 0 && std::chrono::steady_clock::now() < until) {
      std::uint32_t from = 0;
      std::span<const std::byte> message;
      for (const auto& channel : channels) missing -= channel->poll(from, message) ? 1 : 0;
    }
  }

  std::vector<std::unique_ptr<ucx::MessagePlane>> planes_;
  std::vector<std::unique_ptr<Transport>> endpoints_;
};

class BufferedUcxRig : public HostPayloads, public UcxRig {
 public:
  explicit BufferedUcxRig(const Pipeline& pipeline) : HostPayloads(pipeline), UcxRig(pipeline, this) {}
};
#endif

#if SLUICE_HAVE_UCX
using Rigs = ::testing::Types<InProcessRig, BufferedRig, DelayedRig, SimRig, UcxRig, BufferedUcxRig>;
using PayloadRigs = ::testing::Types<BufferedRig, BufferedUcxRig>;
#else
using Rigs = ::testing::Types<InProcessRig, BufferedRig, DelayedRig, SimRig>;
using PayloadRigs = ::testing::Types<BufferedRig>;
#endif
INSTANTIATE_TYPED_TEST_SUITE_P(Host, TransportConformance, Rigs);
INSTANTIATE_TYPED_TEST_SUITE_P(Host, TransportPayloadConformance, PayloadRigs);

}  // namespace
}  // namespace sluice::conformance
