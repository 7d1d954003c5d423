#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "address_space.hpp"
#include "communicator.hpp"
#include "handles.hpp"

namespace fakenccl {

/// Memory of all ranks of a communicator that they can put into.
struct Window {
  std::size_t number = 0;
  int flags = 0;
  std::size_t size = 0;
  /// This rank's, as the program knows it.
  const char* address = nullptr;
  /// Where each rank's begins.
  std::vector<fakecuda::Location> parts;
  std::weak_ptr<Communicator> communicator;
  ncclWindow_t handle = nullptr;
  /// Operations enqueued that use it.
  std::atomic<int> users{0};

  [[nodiscard]] bool symmetric() const { return (flags & NCCL_WIN_COLL_SYMMETRIC) != 0; }
  [[nodiscard]] bool holds(const void* from, std::size_t bytes) const;
};

using Windows = fakecuda::Handles<Window, ncclWindow_t>;
Windows& windows();
/// Whether an allocation is part of a window of this process.
[[nodiscard]] bool in_window(const fakecuda::Allocation& memory);

/// How many windows of a communicator are told apart when they are deregistered.
inline constexpr std::size_t kMostWindows = 64;

}  // namespace fakenccl
