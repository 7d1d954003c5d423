#include <array>
#include <utility>

#include "fake_cuda/nccl_controls.hpp"
#include "nccl_bugs.hpp"
#include "nccl_pair.hpp"
#include "unit/fake_cuda/number_kernels.hpp"
#include "unit/fake_nccl/nccl_library.hpp"

namespace planted {
namespace {

using fake_nccl_tests::nccl;

/// A second communicator of the same ranks.
ncclComm_t second_communicator(const End& end) {
  ncclComm_t communicator = nullptr;
  check(nccl().comm_split(end.communicator, 0, end.rank, &communicator, nullptr));
  return communicator;
}

/// The ranks launch the collectives of two communicators in different orders.
void collectives_in_different_orders(bool planted) {
  if (planted && fakecuda_nccl_deadlock_ms != nullptr) fakecuda_nccl_deadlock_ms(500);
  on_both_ends([planted](const End& end) {
    std::array communicators = {end.communicator, second_communicator(end)};
    if (planted && end.rank == 1) std::swap(communicators[0], communicators[1]);
    for (ncclComm_t communicator : communicators) end.add_up(end.slots[0], communicator);
    check(cudaStreamSynchronize(end.first));
    end.meet();
    ncclComm_t second = communicators[0] == end.communicator ? communicators[1] : communicators[0];
    check(nccl().comm_abort(second));
  });
}

/// The ranks reduce different numbers of elements.
void collectives_of_different_sizes(bool planted) {
  on_both_ends([planted](const End& end) {
    const std::size_t count = planted && end.rank == 1 ? kCount / 2 : kCount;
    check(cudaMemsetAsync(end.slots[0], 0, kBytes, end.first));
    end.meet();
    // May be refused when the peer has found the difference already.
    static_cast<void>(nccl().all_reduce(end.slots[0], end.slots[0], count, ncclInt32, ncclSum,
                                        end.communicator, end.first));
    check(cudaStreamSynchronize(end.first));
  });
}

/// The result of an all-reduce is used on a stream that does not follow it.
void result_used_before_all_reduce(bool planted) {
  on_both_ends([planted](const End& end) {
    end.add_up(end.slots[0], end.communicator);
    if (!planted) end.order(end.first, end.second);
    check(fake_cuda_tests::scale(end.slots[0], kCount, 3, end.second));
  });
}

/// A window is given up while the peer still puts into it.
void window_given_up_too_early(bool planted) {
  on_both_ends([planted](const End& end) {
    void* memory = nullptr;
    check(nccl().mem_alloc(&memory, kBytes));
    ncclWindow_t window = nullptr;
    check(nccl().comm_window_register(end.communicator, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    if (end.rank == 1 && !planted) {
      end.wait(1);
      check(cudaStreamSynchronize(end.first));
    }
    if (end.rank == 1) check(nccl().comm_window_deregister(end.communicator, window));
    if (planted) end.meet();
    if (end.rank == 0) {
      check(nccl().put_signal(end.slots[0], kBytes, ncclUint8, 1, window, 0, 0, 0, 0, end.communicator,
                              end.first));
      check(cudaStreamSynchronize(end.first));
      check(nccl().comm_window_deregister(end.communicator, window));
    }
    check(nccl().mem_free(memory));
  });
}

constexpr std::array kBugs = {
    PlantedBug{"collectives_in_different_orders", collectives_in_different_orders},
    PlantedBug{"collectives_of_different_sizes", collectives_of_different_sizes},
    PlantedBug{"result_used_before_all_reduce", result_used_before_all_reduce},
    PlantedBug{"window_given_up_too_early", window_given_up_too_early},
};

}  // namespace

std::span<const PlantedBug> collective_bugs() { return kBugs; }

}  // namespace planted
