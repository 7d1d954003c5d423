#include "nccl_pair.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "unit/fake_nccl/nccl_library.hpp"

namespace planted {

using fake_nccl_tests::nccl;

void check(ncclResult_t code) {
  if (code == ncclSuccess) return;
  std::fprintf(stderr, "nccl: %s: %s\n", nccl().get_error_string(code), nccl().get_last_error(nullptr));
  // The other rank waits for this one.
  std::_Exit(2);
}

End::End(const ncclUniqueId& id, int number, std::barrier<>& both) : rank(number), both_(both) {
  check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  check(nccl().comm_init_rank(&communicator, 2, id, rank));
  void* memory = nullptr;
  check(nccl().mem_alloc(&memory, 2 * kBytes));
  slots[0] = static_cast<int*>(memory);
  slots[1] = slots[0] + kCount;
  check(nccl().comm_window_register(communicator, memory, 2 * kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
}

End::~End() {
  static_cast<void>(cudaStreamSynchronize(first));
  static_cast<void>(cudaStreamSynchronize(second));
  // Nothing of the peer's is under way either.
  meet();
  static_cast<void>(nccl().comm_window_deregister(communicator, window));
  static_cast<void>(nccl().comm_abort(communicator));
  static_cast<void>(nccl().mem_free(slots[0]));
  static_cast<void>(cudaEventDestroy(event_));
  static_cast<void>(cudaStreamDestroy(first));
  static_cast<void>(cudaStreamDestroy(second));
}

void End::order(cudaStream_t earlier, cudaStream_t later) const {
  check(cudaEventRecord(event_, earlier));
  check(cudaStreamWaitEvent(later, event_, 0));
}

void End::put(const int* source, std::size_t bytes, int slot, int signal_index) const {
  const std::size_t offset = static_cast<std::size_t>(slot) * kBytes;
  check(nccl().put_signal(source, bytes, ncclUint8, 1 - rank, window, offset, signal_index, 0, 0,
                          communicator, first));
}

void End::signal() const { check(nccl().signal(1 - rank, 0, 0, 0, communicator, first)); }

void End::wait(int signals) const {
  ncclWaitSignalDesc_t wanted{signals, 1 - rank, 0, 0};
  check(nccl().wait_signal(1, &wanted, communicator, first));
}

void End::add_up(int* numbers, ncclComm_t other) const {
  check(nccl().all_reduce(numbers, numbers, kCount, ncclInt32, ncclSum, other, first));
}

void on_both_ends(const std::function<void(const End&)>& body) {
  if (!nccl().complete) check(cudaErrorSharedObjectInitFailed);
  ncclUniqueId id;
  check(nccl().get_unique_id(&id));
  std::barrier<> both(2);
  std::array<std::thread, 2> threads;
  for (int i = 0; i < 2; ++i) {
    threads.at(static_cast<std::size_t>(i)) = std::thread([&, i] {
      const End end(id, i, both);
      body(end);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace planted
