#pragma once

#include <cuda_runtime_api.h>

namespace fakecuda {

/// The error that was planned for this call, if any.
[[nodiscard]] cudaError_t planned_failure(const char* function);
void forget_planned_failures();

}  // namespace fakecuda
