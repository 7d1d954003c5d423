#include <array>

#include "nccl_bugs.hpp"
#include "nccl_pair.hpp"
#include "unit/fake_cuda/number_kernels.hpp"

namespace planted {
namespace {

using fake_cuda_tests::add;
using fake_cuda_tests::count_up;
using fake_cuda_tests::scale;

/// Rank 0 puts from its first slot into the second slot of rank 1.
constexpr int kFrom = 0;
constexpr int kTo = 1;

/// A put is not ordered behind the kernel that fills its source.
void put_before_kernel(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 1) return end.wait(1);
    check(count_up(end.slots[kFrom], kCount, 1, end.second));
    if (!planted) end.order(end.second, end.first);
    end.put(end.slots[kFrom], kBytes, kTo);
  });
}

/// The source is filled again while the put still reads it.
void put_source_refilled(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 1) return end.wait(1);
    check(count_up(end.slots[kFrom], kCount, 1, end.first));
    end.order(end.first, end.second);
    end.put(end.slots[kFrom], kBytes, kTo);
    if (!planted) end.order(end.first, end.second);
    check(count_up(end.slots[kFrom], kCount, 2, end.second));
  });
}

/// What was put is read on a stream that does not follow the wait for its signal.
void arrival_read_without_wait(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 0) return end.put(end.slots[kFrom], kBytes, kTo);
    end.wait(1);
    if (!planted) end.order(end.first, end.second);
    check(scale(end.slots[kTo], kCount, 3, end.second));
  });
}

/// The next microbatch is put into a slot that the peer has not said it is done with.
void slot_put_into_before_its_grant(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 0) {
      end.put(end.slots[kFrom], kBytes, kTo);
      if (!planted) end.wait(1);
      end.put(end.slots[kFrom], kBytes, kTo);
      return;
    }
    end.wait(1);
    check(add(end.slots[kTo], end.slots[kTo], end.slots[kFrom], kCount, end.first));
    end.signal();
    end.wait(1);
  });
}

/// A slot that the peer puts into is used for something else, without waiting for the put.
void slot_reused_before_the_put_came(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 0) return end.put(end.slots[kFrom], kBytes, kTo);
    if (!planted) end.wait(1);
    check(count_up(end.slots[kTo], kCount, 1, end.first));
  });
}

/// Of two puts, one signal is waited for.
void one_signal_for_two_puts(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 0) {
      end.put(end.slots[kFrom], kBytes / 2, kTo);
      end.put(end.slots[kFrom] + kCount / 2, kBytes / 2, kFrom);
      return;
    }
    end.wait(planted ? 1 : 2);
    check(scale(end.slots[kFrom], kCount / 2, 3, end.first));
  });
}

/// The source of a put reaches past its window.
void put_source_past_its_window(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 1) return planted ? void() : end.wait(1);
    end.put(end.slots[1] + kCount / 2, planted ? kBytes : kBytes / 2, kFrom);
  });
}

/// The source of a put is ordinary device memory.
void put_source_outside_windows(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 1) return end.wait(1);
    void* memory = nullptr;
    check(cudaMalloc(&memory, kBytes));
    end.put(planted ? static_cast<int*>(memory) : end.slots[kFrom], kBytes, kTo);
    check(cudaFree(memory));
  });
}

/// Signals are told apart by their index, which there is one of.
void second_signal_index(bool planted) {
  on_both_ends([planted](const End& end) {
    if (end.rank == 1) return end.wait(1);
    end.put(end.slots[kFrom], kBytes, kTo, planted ? 1 : 0);
  });
}

constexpr std::array kBugs = {
    PlantedBug{"put_before_kernel", put_before_kernel},
    PlantedBug{"put_source_refilled", put_source_refilled},
    PlantedBug{"arrival_read_without_wait", arrival_read_without_wait},
    PlantedBug{"slot_put_into_before_its_grant", slot_put_into_before_its_grant},
    PlantedBug{"slot_reused_before_the_put_came", slot_reused_before_the_put_came},
    PlantedBug{"one_signal_for_two_puts", one_signal_for_two_puts},
    PlantedBug{"put_source_past_its_window", put_source_past_its_window},
    PlantedBug{"put_source_outside_windows", put_source_outside_windows},
    PlantedBug{"second_signal_index", second_signal_index},
};

}  // namespace

std::span<const PlantedBug> put_bugs() { return kBugs; }

}  // namespace planted
