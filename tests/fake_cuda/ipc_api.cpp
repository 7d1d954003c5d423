#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "call.hpp"
#include "capture.hpp"
#include "device.hpp"
#include "event.hpp"
#include "report.hpp"
#include "settings.hpp"

namespace fakecuda {
namespace {

constexpr std::uint32_t kMemoryMark = 0xFA4E0001;
constexpr std::uint32_t kEventMark = 0xFA4E0002;

/// What a handle holds: the file is opened through the owner's entry in /proc, so that nothing is left behind
/// when processes die.
struct Contents {
  std::uint32_t mark;
  std::int32_t process;
  std::int32_t file;
  std::uint64_t bytes;
};

template <typename Handle>
void write_handle(Handle& handle, const Contents& contents) {
  static_assert(sizeof(Contents) <= sizeof(Handle));
  std::memset(&handle, 0, sizeof handle);
  std::memcpy(&handle, &contents, sizeof contents);
}

template <typename Handle>
cudaError_t open_handle(const Handle& handle, std::uint32_t mark, Contents& contents, int& file) {
  std::memcpy(&contents, &handle, sizeof contents);
  if (contents.mark != mark) return cudaErrorInvalidResourceHandle;
  if (contents.process == getpid()) return cudaErrorDeviceUninitialized;
  const std::string path =
      "/proc/" + std::to_string(contents.process) + "/fd/" + std::to_string(contents.file);
  file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  return file >= 0 ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

/// Handles opened in this process: one opened twice is mapped once.
struct Opened {
  std::mutex mutex;
  struct Entry {
    std::shared_ptr<Allocation> memory;
    int count = 0;
  };
  std::map<std::pair<int, int>, Entry> by_owner;
};

Opened& opened() {
  static auto& value = *new Opened;
  return value;
}

cudaError_t open_memory(void** address, const cudaIpcMemHandle_t& handle, unsigned flags) {
  if (address == nullptr || flags > cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  if (!peers_allowed()) return cudaErrorMapBufferObjectFailed;
  Contents contents{};
  int file = -1;
  if (const cudaError_t error = open_handle(handle, kMemoryMark, contents, file)) return error;
  const std::lock_guard lock(opened().mutex);
  auto& entry = opened().by_owner[{contents.process, contents.file}];
  if (entry.count++ > 0) {
    close(file);
  } else {
    entry.memory = Allocation::peer(file, contents.bytes, current_device());
    if (entry.memory == nullptr) return cudaErrorMapBufferObjectFailed;
    AddressSpace::instance().add(entry.memory);
  }
  *address = entry.memory->address();
  return cudaSuccess;
}

cudaError_t close_memory(void* address) {
  if (const cudaError_t refused = captures::unsafe_call()) return refused;
  const std::lock_guard lock(opened().mutex);
  auto& entries = opened().by_owner;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.second.memory != nullptr && entry.second.memory->address() == address;
  });
  if (found == entries.end()) return cudaErrorInvalidValue;
  if (--found->second.count > 0) return cudaSuccess;
  const std::shared_ptr<Allocation> memory = found->second.memory;
  entries.erase(found);
  if (memory->in_use())
    report("cudaIpcCloseMemHandle of " + memory->name() + " that enqueued work still uses");
  wait_for_device(current_device());
  AddressSpace::instance().remove(address, {MemoryKind::Peer});
  memory->end();
  return cudaSuccess;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;  // NOLINT(google-build-using-namespace): the runtime's functions lie outside

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return call("cudaIpcGetMemHandle", [&] {
    const auto location = AddressSpace::instance().find(address);
    const bool whole = location && location->offset == 0 && location->memory->kind() == MemoryKind::Device;
    if (handle == nullptr || !whole) return cudaErrorInvalidValue;
    if (!peers_allowed()) return cudaErrorNotSupported;
    write_handle(*handle, {kMemoryMark, getpid(), location->memory->file(), location->memory->size()});
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
  return call("cudaIpcOpenMemHandle", [&] { return open_memory(address, handle, flags); });
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  return release_call("cudaIpcCloseMemHandle", [&] { return close_memory(address); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event_handle) {
  return call("cudaIpcGetEventHandle", [&] {
    const auto event = events().find(event_handle);
    if (handle == nullptr || event == nullptr || event->shared() == nullptr)
      return cudaErrorInvalidResourceHandle;
    if (!peers_allowed()) return cudaErrorNotSupported;
    write_handle(*handle, {kEventMark, getpid(), event->shared()->file(), 0});
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return call("cudaIpcOpenEventHandle", [&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    if (!peers_allowed()) return cudaErrorMapBufferObjectFailed;
    Contents contents{};
    int file = -1;
    if (const cudaError_t error = open_handle(handle, kEventMark, contents, file)) return error;
    auto shared = SharedEvent::open(file);
    if (shared == nullptr) return cudaErrorMapBufferObjectFailed;
    *event = events().add(
        std::make_shared<Event>(cudaEventDisableTiming | cudaEventInterprocess, std::move(shared)));
    return cudaSuccess;
  });
}
