#pragma once

#include <cstddef>

#include "../../fake_cuda/controls.hpp"

namespace sluice::test {

/// How much of the runtime's exists in this process and was not destroyed; 0 on a real device, which does not
/// say.
inline std::size_t left_on_device() {
  if (fakecuda_live == nullptr) return 0;
  std::size_t left = 0;
  for (const char* const kind : {"allocations", "host allocations", "streams", "events", "graphs",
                                 "executable graphs", "opened handles"})
    left += fakecuda_live(kind);
  return left;
}

}  // namespace sluice::test
