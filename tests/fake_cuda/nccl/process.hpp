#pragma once

namespace fakenccl {

/// Whether a process runs; one that ended and was not waited for does not.
[[nodiscard]] bool process_lives(int process);

}  // namespace fakenccl
