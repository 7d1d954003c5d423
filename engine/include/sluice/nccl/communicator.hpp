#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "sluice/clock.hpp"
#include "sluice/cuda/memory.hpp"
#include "sluice/nccl/library.hpp"

namespace sluice::nccl {

/// What the ranks of a communicator recognise each other by: made by one of them, given to all.
[[nodiscard]] ncclUniqueId make_unique_id();

/// One rank's end of an NCCL communicator, on the calling thread's device. Non-blocking: no call of a
/// communicator waits for a peer without a bound.
class Communicator {
 public:
  struct Place {
    std::uint32_t ranks = 0;
    std::uint32_t rank = 0;
    /// What it is for, in errors: `edge 2 (chunk 2 to 3), rank 1`.
    std::string name;
  };

  /// All ranks make it at the same time.
  /// @param patience longest wait for them
  /// @throws NcclError naming the place; Error if a peer did not come
  Communicator(const ncclUniqueId& id, const Place& place, Duration patience);
  /// Aborts after an error or `abort`, and where an exception destroys it; otherwise ends what was enqueued,
  /// waiting for it for the patience at most, and aborts then.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Null after `abort`.
  [[nodiscard]] ncclComm_t get() const noexcept { return communicator_; }
  [[nodiscard]] const Place& place() const noexcept { return place_; }

  /// What a call of the library said: whether it is over. If not, it goes on in the background, and the next
  /// one comes after it is `ready`.
  /// @param what was tried
  /// @throws NcclError naming the place
  bool over(ncclResult_t result, const char* what);
  /// Whether no call goes on in the background. Does not wait.
  /// @throws NcclError naming the place
  [[nodiscard]] bool ready(const char* what);
  /// Waits, with a bound, for a call that may go on in the background.
  /// @throws NcclError naming the place; Error if it takes longer than the patience
  void complete(ncclResult_t result, const char* what);
  /// Whether its peers and the network are well; a call to NCCL, so not for every poll.
  /// @throws NcclError naming the place
  void check_health();
  /// What is enqueued ends without having been carried out. The communicator is of no more use.
  void abort() noexcept;
  /// How long the next calls may wait.
  void set_patience(Duration patience) noexcept { patience_ = patience; }

 private:
  [[noreturn]] void fail(ncclResult_t code, const char* what);
  [[nodiscard]] ncclResult_t state() const;
  [[nodiscard]] bool await_ready(const char* what);
  void finalize() noexcept;

  const Library& library_;
  Place place_;
  Duration patience_;
  ncclComm_t communicator_ = nullptr;
  bool failed_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

/// Device memory that NCCL can make a window of.
class WindowMemory {
 public:
  /// @throws NcclError with the bytes asked for
  WindowMemory(std::size_t bytes, const char* what);

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  /// For those who hold any kind of device memory.
  [[nodiscard]] cuda::DeviceMemory take() && noexcept { return std::move(memory_); }

 private:
  cuda::DeviceMemory memory_;
};

/// Memory that the peers of a communicator put into, of the same size on all of them.
class Window {
 public:
  /// Collective. The communicator and the memory outlive the window.
  /// @throws NcclError naming the communicator's place
  Window(Communicator& communicator, std::byte* memory, std::size_t bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] ncclWindow_t get() const noexcept { return window_; }

 private:
  Communicator& communicator_;
  ncclWindow_t window_ = nullptr;
};

}  // namespace sluice::nccl
