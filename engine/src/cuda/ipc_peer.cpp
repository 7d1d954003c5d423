#include "ipc_peer.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>
#include <utility>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

constexpr const char* kInstead = "CUDA IPC cannot connect them: use UCX between them instead";

}  // namespace

IpcPlace this_place() {
  IpcPlace place;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!boot.getline(place.boot.data(), place.boot.size()))
    throw Error("cannot read /proc/sys/kernel/random/boot_id");
  struct stat names {};
  if (stat("/proc/self/ns/pid", &names) != 0) throw Error("cannot read /proc/self/ns/pid");
  place.process_names = names.st_ino;
  place.process = getpid();
  return place;
}

IpcCard read_card(std::uint32_t rank, std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<IpcCard>);
  IpcCard card;
  if (bytes.size() == sizeof card) std::memcpy(&card, bytes.data(), sizeof card);
  if (bytes.size() != sizeof card || card.version != IpcCard::kVersion) {
    throw Error(fmt::format("rank {} runs another version of Sluice, or no CUDA IPC transport", rank));
  }
  return card;
}

bool same_process(const IpcPlace& own, const IpcPlace& other) {
  if (own.boot != other.boot) throw Error(fmt::format("they run on different hosts; {}", kInstead));
  if (own.process_names != other.process_names) {
    throw Error(
        fmt::format("they run in containers with process numbers of their own; {}, or start the "
                    "containers with --pid=host --ipc=host",
                    kInstead));
  }
  return own.process == other.process;
}

void reach_device(int device) {
  int own = 0;
  check(cudaGetDevice(&own), "asking for the current device");
  if (device == own) return;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, own, device),
        fmt::format("asking whether device {} is reached", device));
  if (can == 0) return;
  const cudaError_t code = cudaDeviceEnablePeerAccess(device, 0);
  // Other ranks of this process may have said so before.
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  check(code, fmt::format("reaching for the memory of device {}", device));
}

ImportedMemory::ImportedMemory(const IpcCard& card) {
  if (card.block_bytes == 0) return;
  if (card.handle_error != cudaSuccess) {
    throw Error(fmt::format("its device memory has no handle for other processes: {}; {}",
                            cudaGetErrorName(card.handle_error), kInstead));
  }
  const RelaxedCaptureMode relaxed;
  void* memory = nullptr;
  const cudaError_t code = cudaIpcOpenMemHandle(&memory, card.block, cudaIpcMemLazyEnablePeerAccess);
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error(fmt::format(
        "{} bytes of its device memory cannot be mapped: {} ({}); {}, or see that both processes see both "
        "devices (CUDA_VISIBLE_DEVICES), that the devices reach each other (nvidia-smi topo -p2p r) and that "
        "containers share --ipc=host --pid=host",
        card.block_bytes, cudaGetErrorName(code), cudaGetErrorString(code), kInstead));
  }
  data_.reset(static_cast<std::byte*>(memory));
}

ProcessWatch::ProcessWatch(pid_t process) noexcept
    : descriptor_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))),
      gone_(descriptor_ < 0 && errno == ESRCH) {}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), gone_(other.gone_) {}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(gone_, other.gone_);
  return *this;
}

bool ProcessWatch::ended() const noexcept {
  if (descriptor_ < 0) return gone_;
  pollfd event{descriptor_, POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

}  // namespace sluice::cuda
