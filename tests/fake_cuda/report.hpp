#pragma once

#include <cstddef>
#include <string>

namespace fakecuda {

/// A misuse that a real device would let pass, or end in an error that says less.
void report(const std::string& message);

}  // namespace fakecuda
