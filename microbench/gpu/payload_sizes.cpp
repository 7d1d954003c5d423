#include "gpu/payload_sizes.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {
namespace {

constexpr std::size_t kKibi = 1024;
constexpr std::size_t kMebi = kKibi * kKibi;
/// Of a size's messages together, unless that would be too few.
constexpr std::size_t kAllBytes = 4096 * kMebi;
constexpr std::size_t kLeastMessages = 21;

}  // namespace

std::vector<Payload> payloads(const Effort& effort, std::uint32_t most_messages) {
  if (effort.quick) return {{"64 KiB", 64 * kKibi, 21}};
  std::vector<Payload> sizes{
      {"64 KiB", 64 * kKibi}, {"1 MiB", kMebi}, {"16 MiB", 16 * kMebi}, {"256 MiB", 256 * kMebi}};
  for (Payload& size : sizes) {
    const std::size_t messages = std::max(kLeastMessages, kAllBytes / size.bytes);
    size.messages = static_cast<std::uint32_t>(std::min<std::size_t>(messages, most_messages));
  }
  return sizes;
}

double plain_copy_bandwidth(const Payload& payload) {
  const cuda::Stream stream = cuda::make_stream();
  const cuda::DeviceMemory from(payload.bytes, "the source of a copy");
  const cuda::DeviceMemory to(payload.bytes, "the target of a copy");
  const host::SteadyClock clock;
  const auto copy = [&] {
    cuda::check(
        cudaMemcpyAsync(to.data(), from.data(), payload.bytes, cudaMemcpyDeviceToDevice, stream.get()),
        "copying within the device");
  };
  const auto wait = [&] { cuda::check(cudaStreamSynchronize(stream.get()), "waiting for copies"); };
  copy();
  wait();
  const Time before = clock.now();
  for (std::uint32_t i = 0; i < payload.messages; ++i) copy();
  wait();
  const auto ns = static_cast<double>((clock.now() - before).count());
  return static_cast<double>(payload.messages) * static_cast<double>(payload.bytes) / ns;
}

}  // namespace sluice::microbench
