#pragma once

#include <cstdint>
#include <functional>

#include "sluice/process/bootstrap.hpp"

namespace sluice::test {

/// Calls `work` once for each rank, each on a thread of its own, and waits for all.
/// @throws the first rank's exception
void on_each_rank(std::uint32_t ranks, const std::function<void(process::Bootstrap&)>& work);

}  // namespace sluice::test
