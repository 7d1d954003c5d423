#include "sluice/nccl/communicator.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "sluice/cuda/capture_mode.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/seconds.hpp"

namespace sluice::nccl {
namespace {

/// How often a wait looks.
constexpr auto kSetUpLook = std::chrono::microseconds(50);

void free_window_memory(std::byte* memory) noexcept {
  const cuda::RelaxedCaptureMode relaxed;
  static_cast<void>(Library::get().mem_free(memory));
}

}  // namespace

ncclUniqueId make_unique_id() {
  ncclUniqueId id;
  if (const ncclResult_t code = Library::get().get_unique_id(&id); code != ncclSuccess)
    throw NcclError(code, "making an id for a communicator (NCCL_SOCKET_IFNAME says where it listens)");
  return id;
}

Communicator::Communicator(const ncclUniqueId& id, const Place& place, Duration patience)
    : library_(Library::get()), place_(place), patience_(patience) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const cuda::RelaxedCaptureMode relaxed;
  try {
    complete(library_.comm_init_rank_config(&communicator_, static_cast<int>(place.ranks), id,
                                            static_cast<int>(place.rank), &config),
             "joining the communicator");
  } catch (...) {
    abort();
    throw;
  }
}

Communicator::~Communicator() {
  if (communicator_ == nullptr) return;
  const cuda::RelaxedCaptureMode relaxed;
  // Peers that go on would be waited for, and would wait.
  if (std::uncaught_exceptions() > exceptions_) failed_ = true;
  finalize();
}

/// Together with the peers, or else alone.
void Communicator::finalize() noexcept {
  try {
    if (!failed_) {
      complete(ncclInProgress, "ending what was begun");
      complete(library_.comm_finalize(communicator_), "ending the communicator");
      static_cast<void>(library_.comm_destroy(std::exchange(communicator_, nullptr)));
    }
  } catch (const std::exception&) {
    failed_ = true;
  }
  abort();
}

bool Communicator::over(ncclResult_t result, const char* what) {
  if (result == ncclInProgress) return ready(what);
  if (result != ncclSuccess) fail(result, what);
  return true;
}

bool Communicator::ready(const char* what) {
  const ncclResult_t result = state();
  if (result == ncclInProgress) return false;
  if (result != ncclSuccess) fail(result, what);
  return true;
}

bool Communicator::await_ready(const char* what) {
  const host::SteadyClock clock;
  const Time until = clock.now() + patience_;
  while (!ready(what)) {
    if (clock.now() > until) return false;
    std::this_thread::sleep_for(kSetUpLook);
  }
  return true;
}

void Communicator::complete(ncclResult_t result, const char* what) {
  if (over(result, what) || await_ready(what)) return;
  failed_ = true;
  throw Error(fmt::format("{}: {}: not all ranks came within {} s", place_.name, what, seconds(patience_)));
}

void Communicator::check_health() {
  const ncclResult_t result = state();
  if (result == ncclSuccess || result == ncclInProgress) return;
  failed_ = true;
  // Found in the background: what the library said last is about something else.
  throw NcclError(result, place_.name);
}

void Communicator::abort() noexcept {
  if (communicator_ == nullptr) return;
  failed_ = true;
  const cuda::RelaxedCaptureMode relaxed;
  static_cast<void>(library_.comm_abort(std::exchange(communicator_, nullptr)));
}

ncclResult_t Communicator::state() const {
  if (communicator_ == nullptr) throw Error(place_.name + ": the communicator was aborted");
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = library_.comm_get_async_error(communicator_, &state);
  return code == ncclSuccess ? state : code;
}

void Communicator::fail(ncclResult_t code, const char* what) {
  failed_ = true;
  const char* const last = communicator_ == nullptr ? nullptr : library_.get_last_error(communicator_);
  const std::string details = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  throw NcclError(code, fmt::format("{}: {}{}", place_.name, what, details));
}

WindowMemory::WindowMemory(std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  const cuda::RelaxedCaptureMode relaxed;
  void* memory = nullptr;
  if (const ncclResult_t code = Library::get().mem_alloc(&memory, bytes); code != ncclSuccess) {
    throw NcclError(code, fmt::format("allocating {} bytes of device memory for {}", bytes, what));
  }
  memory_ = {static_cast<std::byte*>(memory), bytes, free_window_memory};
}

Window::Window(Communicator& communicator, std::byte* memory, std::size_t bytes)
    : communicator_(communicator) {
  const cuda::RelaxedCaptureMode relaxed;
  communicator.complete(Library::get().comm_window_register(communicator.get(), memory, bytes, &window_,
                                                            NCCL_WIN_COLL_SYMMETRIC),
                        "registering a window");
  // What NCCL answers where it cannot do it.
  if (window_ == nullptr) {
    throw NcclError(ncclInvalidUsage,
                    communicator.place().name +
                        ": NCCL makes no windows between these devices (NCCL_DEBUG=INFO says why); use "
                        "UCX between them instead");
  }
}

Window::~Window() {
  if (communicator_.get() == nullptr || window_ == nullptr) return;
  const cuda::RelaxedCaptureMode relaxed;
  static_cast<void>(Library::get().comm_window_deregister(communicator_.get(), window_));
}

}  // namespace sluice::nccl
