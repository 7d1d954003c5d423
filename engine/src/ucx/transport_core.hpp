#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plane.hpp"
#include "sluice/error.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/spsc_ring.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

namespace sluice::ucx {

/// The work of a transport, and what of it UCX still uses after the transport has gone.
class TransportCore final : public MessageSink, public Remains {
 public:
  /// @throws ConfigError naming `ranks` or `stage`
  TransportCore(Plane& plane, std::uint32_t run, const Pipeline& pipeline, StageId stage,
                std::vector<std::uint32_t> rank_of_stage, host::SlotBuffers* buffers);

  bool poll(Offer& offer);
  void accept(const Offer& offer, Slot slot);
  bool poll(Arrival& arrival);
  void send(const MessageId& id, Slot slot);
  bool poll(SendDone& done);

  bool take(const MessageHeader& header, const Incoming& message) override;
  void taken(const MessageHeader& header) override;

  /// Gives back what was not accepted and takes the tensors that UCX still reads out of their slots.
  void close() noexcept;
  [[nodiscard]] bool done() const noexcept override { return in_ucx_ == 0; }

 private:
  /// One edge as seen from this stage.
  struct End {
    StageId tail_stage = 0;
    StageId head_stage = 0;
    /// Place of the edge among the out-edges of its tail, and the in-edges of its head.
    std::size_t at_tail = 0;
    std::size_t at_head = 0;
  };
  /// A message to another rank, until it is there.
  struct Sending {
    TransportCore* core = nullptr;
    MessageId id;
    Slot slot = kNoSlot;
    std::uint32_t rank = 0;
    bool used = false;
    /// UCX holds the header and the tensors.
    bool in_ucx = false;
    /// The receiver has to say that it took the message.
    bool untaken = false;
    std::vector<std::byte> header;
    std::vector<TensorShape> shapes;
    std::vector<ucp_dt_iov_t> pieces;
    /// What the transport left behind when it went.
    host::Payload kept;
    Sending* next = nullptr;
  };
  /// A message of another rank, from its offer to its arrival.
  struct Receiving {
    enum class State : std::uint8_t { Free, Offered, Posting, Pulling, Pulled };
    TransportCore* core = nullptr;
    MessageId id;
    std::uint32_t source = 0;
    std::uint32_t token = 0;
    Slot slot = kNoSlot;
    State state = State::Free;
    ucs_status_t status = UCS_OK;
    /// UCX's description of the payload; null if there is none.
    void* descriptor = nullptr;
    std::vector<TensorShape> shapes;
    std::vector<ucp_dt_iov_t> pieces;
    host::Payload payload;
    Receiving* next = nullptr;
  };
  struct Counts {
    std::size_t incoming = 0;
    std::size_t outgoing = 0;
    std::size_t local = 0;
  };

  [[nodiscard]] Counts count_messages() const;
  [[nodiscard]] StageId sender_of(const MessageId& id) const;
  [[nodiscard]] StageId receiver_of(const MessageId& id) const;
  [[nodiscard]] host::Payload& outgoing(const MessageId& id, Slot slot);
  [[nodiscard]] host::Payload& incoming(const MessageId& id, Slot slot);

  [[nodiscard]] ProtocolError overflow() const;
  void sent(const SendDone& done);
  void arrived(const Arrival& arrival);
  void send_to_rank(const MessageId& id, Slot slot, std::uint32_t rank);
  void post(Sending& sending, const host::Payload* payload);
  static void message_left(void* request, ucs_status_t status, void* sending);
  void left(Sending& sending, ucs_status_t status);
  void finish(Sending& sending);

  void accept_local(const MessageId& id, Slot source, Slot slot);
  void pull(Receiving& receiving);
  static void message_pulled(void* request, ucs_status_t status, std::size_t length, void* receiving);
  void pulled(Receiving& receiving, ucs_status_t status);
  void say_taken(const Receiving& receiving);
  void arrive(Receiving& receiving);
  void check_address(const MessageHeader& header) const;

  Plane& plane_;
  std::uint32_t run_;
  /// Not used after `close`: they may be gone.
  const Pipeline& pipeline_;
  host::SlotBuffers* buffers_;
  StageId stage_;
  std::vector<std::uint32_t> rank_of_stage_;
  std::vector<End> ends_;
  bool closed_ = false;
  std::size_t in_ucx_ = 0;

  std::vector<Sending> sendings_;
  std::vector<Receiving> receivings_;
  std::vector<std::byte> reply_;
  Sending* free_sendings_ = nullptr;
  Receiving* free_receivings_ = nullptr;
  host::SpscRing<Offer> offers_;
  host::SpscRing<Arrival> arrivals_;
  host::SpscRing<SendDone> dones_;
};

}  // namespace sluice::ucx
