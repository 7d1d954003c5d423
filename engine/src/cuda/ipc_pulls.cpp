#include "ipc_pulls.hpp"

#include <atomic>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/device.hpp"

namespace sluice::cuda {

IpcPulls::IpcPulls()
    : ended_(sizeof(std::uint32_t), "the pulls of a transport"), stream_(make_stream(Priority::Highest)) {}

IpcPulls::~IpcPulls() { wait(); }

void IpcPulls::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()),
        "putting a copy between slots on a stream");
}

void IpcPulls::mark_end(IpcPull& pull) {
  pull.sequence = ++sequence_;
  pull.next = nullptr;
  write_value(stream_.get(), reinterpret_cast<std::uint32_t*>(ended_.device()), pull.sequence);
  (first_ == nullptr ? first_ : last_->next) = &pull;
  last_ = &pull;
}

IpcPull* IpcPulls::take_ended() noexcept {
  if (first_ == nullptr) return nullptr;
  const std::atomic_ref<std::uint32_t> word(*reinterpret_cast<std::uint32_t*>(ended_.host()));
  // Numbers go round after 2^32; far fewer pulls are under way.
  if (static_cast<std::int32_t>(word.load(std::memory_order_acquire) - first_->sequence) < 0) return nullptr;
  IpcPull* pull = first_;
  first_ = pull->next;
  return pull;
}

cudaError_t IpcPulls::failure() const noexcept {
  const RelaxedCaptureMode relaxed;
  const cudaError_t code = cudaStreamQuery(stream_.get());
  if (code != cudaErrorNotReady) return code;
  static_cast<void>(cudaGetLastError());
  return cudaSuccess;
}

void IpcPulls::wait() const noexcept {
  const RelaxedCaptureMode relaxed;
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

}  // namespace sluice::cuda
