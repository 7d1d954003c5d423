#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "put_line.hpp"

namespace sluice::nccl {

class PutReceiver;
struct PutSending;

/// A message on its way to this rank, from its offer to its arrival.
struct PutReceiving : cuda::StreamedMessage {
  StageId from = 0;
  /// As the sender calls it.
  std::uint32_t token = 0;
  std::vector<TensorShape> shapes;
  std::uint64_t bytes = 0;
  /// The other end, where that is a chunk of this rank too.
  PutSending* local = nullptr;
  PutReceiving* next_accepted = nullptr;
  PutReceiving* next_free = nullptr;
};

/// The receiving end of a way. Messages arrive in the order in which they were granted, so that it is known
/// how many signals the next one has: each put gives one.
class PutReceiver {
 public:
  PutReceiver(const PutLine::Place& place, const ncclUniqueId& id, Duration patience)
      : line_(place, id, patience) {}

  /// It has its slot.
  void accept(PutReceiving& message) noexcept;
  /// The next message to grant, null for none: as many are granted at a time as the ring has entries. The
  /// sender is told then.
  [[nodiscard]] PutReceiving* grant_next() noexcept;
  /// Arms the wait for the oldest message.
  /// @throws NcclError, CudaError
  void advance();
  /// The oldest message if all of it is here, else null.
  /// @throws ProtocolError if it is not the one that was granted
  [[nodiscard]] PutReceiving* take_arrived();
  /// Nothing is accepted and not here.
  [[nodiscard]] bool idle() const noexcept { return first_ == nullptr; }
  /// The oldest message accepted; null for none.
  [[nodiscard]] const PutReceiving* oldest() const noexcept { return first_; }

  [[nodiscard]] PutLine& line() noexcept { return line_; }

 private:
  enum class Wait { None, Armed, HeaderFollows };

  [[nodiscard]] std::size_t entry() const noexcept { return arrived_ % kPutRing; }
  void check_header(const PutReceiving& message);

  PutLine line_;
  /// Accepted and not here, the granted ones first.
  PutReceiving* first_ = nullptr;
  PutReceiving* last_ = nullptr;
  PutReceiving* not_granted_ = nullptr;
  Wait wait_ = Wait::None;
  std::uint64_t granted_ = 0;
  std::uint64_t arrived_ = 0;
};

}  // namespace sluice::nccl
