#include <atomic>
#include <cstdint>

#include "fake_cuda.hpp"
#include "nccl/kernels/first_common.hpp"

namespace {

using namespace sluice::nccl::kernels;

void find_first_common(dim3 /*grid*/, dim3 block, const std::uint8_t* bytes, Windows windows,
                       std::uint64_t attempt, Answer* answer) {
  Firsts firsts = firsts_of_share(bytes, windows, 0, block.x);
  for (std::uint32_t thread = 1; thread < block.x; ++thread)
    firsts = Earlier{}(firsts, firsts_of_share(bytes, windows, thread, block.x));
  answer->firsts = firsts;
  std::atomic_ref(answer->attempt).store(attempt, std::memory_order_release);
}

[[maybe_unused]] const bool kRegistered =
    fakecuda::kernel("sluice::nccl::kernels::find_first_common(", &find_first_common);

}  // namespace
