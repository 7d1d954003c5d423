#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "communicator.hpp"
#include "window.hpp"

namespace fakenccl {

/// Data into a peer's window, if there is any, and then a signal.
struct Put {
  fakecuda::Location source;
  std::size_t bytes = 0;
  std::shared_ptr<Window> target;
  std::size_t target_offset = 0;
  int peer = 0;
};

[[nodiscard]] Operation put_operation(const std::shared_ptr<Communicator>& communicator, const Put& put);

struct Awaited {
  int peer = 0;
  std::uint64_t signals = 0;
};

[[nodiscard]] Operation wait_operation(const std::shared_ptr<Communicator>& communicator,
                                       const std::vector<Awaited>& awaited);

}  // namespace fakenccl
