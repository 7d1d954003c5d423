#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "put_line.hpp"
#include "sluice/cuda/slot_memory.hpp"

namespace sluice::nccl {

struct PutReceiving;

/// A message on its way from this rank.
struct PutSending : cuda::StreamedMessage {
  bool used = false;
  /// The receiver has said where it goes.
  bool granted = false;
  /// In its slot.
  const std::vector<cuda::SlotTensor>* tensors = nullptr;
  /// Where they go in the receiver's window.
  std::vector<std::uint64_t> places;
  /// The other end, where that is a chunk of this rank too.
  PutReceiving* local = nullptr;
  PutSending* next_granted = nullptr;
  PutSending* next_free = nullptr;
};

/// The sending end of a way. Puts the messages in the order in which they were granted.
class PutSender {
 public:
  PutSender(const PutLine::Place& place, const ncclUniqueId& id, Duration patience)
      : line_(place, id, patience) {}

  void grant(PutSending& message) noexcept;
  /// Gets the messages on as far as that needs no wait.
  /// @throws NcclError, CudaError
  void advance();
  /// The oldest message if nothing reads its slot any more, else null.
  [[nodiscard]] PutSending* take_ended() noexcept;
  /// Nothing is granted and not ended.
  [[nodiscard]] bool idle() const noexcept { return first_ == nullptr && ended_ == put_; }

  [[nodiscard]] PutLine& line() noexcept { return line_; }

 private:
  /// False if there is nothing left to put of the oldest message.
  bool put_next(PutSending& message);
  void write_header(const PutSending& message);

  PutLine line_;
  /// Granted and not all put.
  PutSending* first_ = nullptr;
  PutSending* last_ = nullptr;
  /// Of the oldest one, how many tensors were put, and whether the header was.
  std::size_t tensor_ = 0;
  bool header_put_ = false;
  /// Messages whose header was put, and messages ended.
  std::uint64_t put_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace sluice::nccl
