#pragma once

namespace fakecuda {

/// The calling thread's.
[[nodiscard]] int current_device();
void set_current_device(int device);

}  // namespace fakecuda
