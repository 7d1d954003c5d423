#pragma once

#include <nccl.h>

#include <barrier>
#include <functional>

#include "planted_bug.hpp"

namespace planted {

/// Ends the program with status 2 unless the code is ncclSuccess.
void check(ncclResult_t code);

/// One of two ranks of a communicator: two streams, and a window of two slots of `kCount` numbers.
class End {
 public:
  End(const ncclUniqueId& id, int rank, std::barrier<>& both);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  int rank;
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  int* slots[2] = {};
  ncclWindow_t window = nullptr;
  ncclComm_t communicator = nullptr;

  /// `later` goes on behind what `earlier` has so far.
  void order(cudaStream_t earlier, cudaStream_t later) const;
  /// On the first stream, into the other rank's slot.
  void put(const int* source, std::size_t bytes, int slot, int signal_index = 0) const;
  void signal() const;
  void wait(int signals) const;
  void add_up(int* numbers, ncclComm_t other) const;
  void meet() const { both_.arrive_and_wait(); }

 private:
  cudaEvent_t event_ = nullptr;
  std::barrier<>& both_;
};

/// Runs what each rank does, on a thread of its own.
void on_both_ends(const std::function<void(const End&)>& body);

}  // namespace planted
