#include "transport/link.hpp"

#include <dlpack/dlpack.h>

#include <vector>

namespace sluice::microbench {
namespace {

constexpr std::size_t kAlignment = 64;

/// A tensor that does not own its memory.
struct View {
  DLManagedTensor tensor{};
  std::int64_t extent = 0;
};

host::TensorPtr view_of(std::byte* memory, std::size_t bytes) {
  auto view = std::make_unique<View>();
  view->extent = static_cast<std::int64_t>(bytes);
  DLTensor& tensor = view->tensor.dl_tensor;
  tensor.data = memory;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLUInt, 8, 1};
  tensor.shape = &view->extent;
  view->tensor.manager_ctx = view.get();
  view->tensor.deleter = [](DLManagedTensor* each) {
    const std::unique_ptr<View> owned(static_cast<View*>(each->manager_ctx));
  };
  return host::TensorPtr(&view.release()->tensor);
}

}  // namespace

Link::Link(process::Bootstrap& bootstrap, std::size_t bytes, Microbatch microbatches)
    : pipeline_(Pipeline::chain(2, microbatches)),
      stage_(static_cast<StageId>(bootstrap.rank())),
      bytes_(bytes),
      plane_(bootstrap, {}),
      buffers_(pipeline_, stage_, microbatches),
      memory_(std::make_unique<std::byte[]>(bytes + kAlignment)),
      transport_(plane_.transport(0, pipeline_, stage_, {0, 1}, bytes > 0 ? &buffers_ : nullptr)) {}

void Link::send(Microbatch microbatch) {
  host::SlotBuffer& buffer = buffers_[microbatch];
  host::Payload& payload = stage_ == 0 ? buffer.outputs[0] : buffer.input_grads[0];
  if (bytes_ > 0) payload.push_back(view_of(data(), bytes_));
  transport_->send({0, microbatch, 0, stage_ == 0 ? Direction::Activation : Direction::Gradient}, microbatch);
}

/// Aligned as the tensors of trainers are.
std::byte* Link::data() const {
  void* start = memory_.get();
  std::size_t room = bytes_ + kAlignment;
  return static_cast<std::byte*>(std::align(kAlignment, bytes_, start, room));
}

std::uint32_t Link::receive() {
  Offer offer;
  std::uint32_t arrived = take_arrivals();
  while (transport_->poll(offer)) {
    transport_->accept(offer, offer.id.microbatch);
    // At once, so that the next message gets the same memory, as perftest's do.
    arrived += take_arrivals();
  }
  return arrived;
}

std::uint32_t Link::take_arrivals() {
  Arrival arrival;
  std::uint32_t arrived = 0;
  while (transport_->poll(arrival)) {
    host::SlotBuffer& buffer = buffers_[arrival.slot];
    (stage_ == 0 ? buffer.output_grads[0] : buffer.inputs[0]).clear();
    ++arrived;
  }
  return arrived;
}

std::uint32_t Link::ended() {
  SendDone done;
  std::uint32_t count = 0;
  while (transport_->poll(done)) ++count;
  return count;
}

}  // namespace sluice::microbench
