#include "put_sender.hpp"

#include "sluice/host/payload.hpp"

namespace sluice::nccl {

void PutSender::grant(PutSending& message) noexcept {
  message.next_granted = nullptr;
  (first_ == nullptr ? first_ : last_->next_granted) = &message;
  last_ = &message;
}

void PutSender::advance() {
  while (first_ != nullptr && line_.ready()) {
    if (put_next(*first_)) continue;
    if (!header_put_) return;
    PutSending& message = *first_;
    first_ = message.next_granted;
    tensor_ = 0;
    header_put_ = false;
    line_.stream().mark_end(message);
  }
}

bool PutSender::put_next(PutSending& message) {
  while (tensor_ < message.tensors->size()) {
    const cuda::SlotTensor& tensor = (*message.tensors)[tensor_];
    const std::uint64_t place = message.places[tensor_++];
    const std::uint64_t bytes = host::bytes_of(tensor.shape);
    if (bytes == 0) continue;
    line_.put_payload(tensor.data, bytes, place);
    return true;
  }
  // The entry may be in use still: the receiver has seen its message, this rank not yet that it has ended.
  if (header_put_ || put_ - ended_ == kPutRing) return false;
  write_header(message);
  header_put_ = true;
  return true;
}

void PutSender::write_header(const PutSending& message) {
  std::uint64_t bytes = 0;
  for (const cuda::SlotTensor& tensor : *message.tensors) bytes += host::bytes_of(tensor.shape);
  const std::size_t entry = put_ % kPutRing;
  line_.pinned(entry) = {put_, message.id, bytes};
  line_.stream().copy(line_.entry(entry), reinterpret_cast<const std::byte*>(&line_.pinned(entry)),
                      sizeof(PutHeader));
  line_.put_header(entry);
  ++put_;
}

PutSending* PutSender::take_ended() noexcept {
  auto* message = static_cast<PutSending*>(line_.stream().take_ended());
  if (message != nullptr) ++ended_;
  return message;
}

}  // namespace sluice::nccl
