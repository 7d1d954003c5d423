#pragma once

#include <nccl.h>

#include <string>

namespace fakenccl {

/// Keeps the message for ncclGetLastError.
ncclResult_t fail(ncclResult_t code, const std::string& message);
/// Also reports it, as what the real library would not notice.
ncclResult_t misuse(ncclResult_t code, const std::string& message);
[[nodiscard]] const char* last_message();

}  // namespace fakenccl
