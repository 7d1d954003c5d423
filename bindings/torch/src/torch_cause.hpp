#pragma once

#include <exception>
#include <string>

namespace sluice::capture {

/// Of an exception of torch, without what only names torch's own code.
[[nodiscard]] std::string cause_of(const std::exception& error);

}  // namespace sluice::capture
