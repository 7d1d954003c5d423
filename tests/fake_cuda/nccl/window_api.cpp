#include <fcntl.h>
#include <nccl.h>
#include <unistd.h>

#include <string>

#include "nccl_call.hpp"
#include "report.hpp"
#include "round.hpp"
#include "window.hpp"

namespace fakenccl {
namespace {

using fakecuda::AddressSpace;
using fakecuda::Allocation;
using fakecuda::Location;
using fakecuda::MemoryKind;

struct WindowNote {
  Round round = Round::Window;
  int flags;
  std::uint64_t size;
  int process;
  int file;
  std::uint64_t allocation_bytes;
  std::uint64_t offset;
  const void* address;
};

/// One call of ncclCommWindowRegister.
struct Registration {
  std::shared_ptr<Communicator> communicator;
  Location location;
  void* address;
  std::size_t size;
  ncclWindow_t* window;
  int flags;
  int stage = 0;
  std::shared_ptr<Window> made;
};

/// The memory that a note tells of, as this process reaches it.
Location open_part(const WindowNote& note, int device) {
  if (note.process == getpid()) {
    auto location = AddressSpace::instance().find(note.address);
    return location ? *location : Location{};
  }
  const std::string path = "/proc/" + std::to_string(note.process) + "/fd/" + std::to_string(note.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return {};
  return {Allocation::peer(file, note.allocation_bytes, device), note.offset};
}

/// Finds the memory of all ranks.
ncclResult_t make_window(Registration& registration) {
  Communicator& communicator = *registration.communicator;
  auto window = std::make_shared<Window>();
  window->number = communicator.next_window();
  window->flags = registration.flags;
  window->size = registration.size;
  window->address = static_cast<const char*>(registration.address);
  window->communicator = registration.communicator;
  for (int i = 0; i < communicator.place().ranks; ++i) {
    const auto note = communicator.notes().of<WindowNote>(i);
    if (note.size != registration.size || note.flags != registration.flags) {
      return misuse(ncclInvalidArgument, communicator.name() + " registers a window of " +
                                             std::to_string(registration.size) + " bytes, rank " +
                                             std::to_string(i) + " one of " + std::to_string(note.size) +
                                             ", or with other flags");
    }
    Location part = open_part(note, communicator.place().device);
    if (part.memory == nullptr) {
      return fail(ncclRemoteError, "cannot reach the memory of rank " + std::to_string(i));
    }
    // What the peer did before it offered the memory is done when this rank uses it.
    fakecuda::acquire_edge(communicator.meeting().window_edge(i));
    window->parts.push_back(std::move(part));
  }
  registration.made = std::move(window);
  return ncclSuccess;
}

std::optional<ncclResult_t> go_on(Registration& registration) {
  Communicator& communicator = *registration.communicator;
  Notes& notes = communicator.notes();
  if (registration.stage == 0) {
    const Location& here = registration.location;
    fakecuda::release_edge(communicator.meeting().window_edge(communicator.place().rank));
    notes.write(WindowNote{Round::Window, registration.flags, registration.size, getpid(),
                           here.memory->file(), here.memory->size(), here.offset, registration.address});
    registration.stage = 1;
  }
  if (!notes.complete()) return std::nullopt;
  if (registration.stage == 1) {
    if (const ncclResult_t differ = check_round(communicator, Round::Window)) return differ;
    if (const ncclResult_t failed = make_window(registration)) return failed;
    // Nobody goes before all have found the memory of all.
    notes.write(Round::Window);
    registration.stage = 2;
    if (!notes.complete()) return std::nullopt;
  }
  communicator.add(registration.made);
  registration.made->handle = *registration.window = windows().add(registration.made);
  registration.made.reset();
  return ncclSuccess;
}

ncclResult_t refuse(const std::string& why) {
  return fail(ncclInvalidArgument, "ncclCommWindowRegister: " + why);
}

ncclResult_t register_window(const std::shared_ptr<Communicator>& communicator, void* address,
                             std::size_t size, ncclWindow_t* window, int flags) {
  if (const ncclResult_t refused = communicator->ready()) return refused;
  if (window == nullptr || address == nullptr || size == 0) return refuse("nothing to register");
  *window = nullptr;
  constexpr int kFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;
  if ((flags & ~kFlags) != 0) return refuse("unknown flags");
  if (reinterpret_cast<std::uintptr_t>(address) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return refuse("the memory is not aligned to 4096 bytes");
  }
  const auto location = AddressSpace::instance().find(address);
  if (!location || location->memory->kind() != MemoryKind::Nccl) {
    return refuse("the memory is not ncclMemAlloc's");
  }
  if (size > location->room()) return refuse("the memory ends before the window does");
  auto registration = std::make_shared<Registration>(
      Registration{communicator, *location, address, size, window, flags, 0, nullptr});
  return group::submit(
      communicator, [registration] { return go_on(*registration); }, true);
}

ncclResult_t deregister_window(Communicator& communicator, ncclWindow_t handle) {
  const auto window = windows().remove(handle);
  if (window == nullptr || window->communicator.lock().get() != &communicator) {
    return misuse(ncclInvalidArgument,
                  "ncclCommWindowDeregister of what is no window of " + communicator.name());
  }
  if (window->users.load() > 0) {
    fakecuda::report("ncclCommWindowDeregister of a window that enqueued operations of " +
                     communicator.name() + " use");
  }
  communicator.board_of(communicator.place().rank)
      .ended_windows.fetch_or(std::uint64_t{1} << window->number % kMostWindows);
  communicator.remove(*window);
  return ncclSuccess;
}

}  // namespace
}  // namespace fakenccl

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* address, std::size_t size,
                                    ncclWindow_t* window, int flags) {
  return fakenccl::call("ncclCommWindowRegister", communicator, [&](const auto& found) {
    return fakenccl::register_window(found, address, size, window, flags);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  return fakenccl::call("ncclCommWindowDeregister", communicator,
                        [&](const auto& found) { return fakenccl::deregister_window(*found, window); });
}
