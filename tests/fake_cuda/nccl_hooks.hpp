#pragma once

#include <chrono>

namespace fakecuda {

/// What the fake NCCL asks of the settings that tests make through `nccl_controls.hpp`.
namespace nccl_hooks {

/// As ncclGetVersion says it; 0 if a test asked for none.
[[nodiscard]] int version();
/// Whether the put or signal that is being carried out shall not signal.
[[nodiscard]] bool loses_signal();
[[nodiscard]] std::chrono::milliseconds deadlock_bound();

using Break = void (*)(void* communicator, int code);
/// Who carries `fakecuda_nccl_break` out.
void on_break(Break function);

}  // namespace nccl_hooks
}  // namespace fakecuda
