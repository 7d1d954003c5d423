#include "common_search.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include "first_common.hpp"
#include "sluice/cuda/capture_mode.hpp"
#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::nccl {
namespace {

constexpr const char* kReducing = "reducing what is runnable on the members";
/// Of the warm-up; those of a group are numbered from 1.
constexpr std::uint64_t kNoAttempt = 0;
constexpr std::uint64_t kNoAnswer = ~std::uint64_t{0};

std::size_t bytes_of(const kernels::Windows& windows) {
  std::size_t bytes = 0;
  for (const kernels::Window& window : windows.of) bytes += window.count;
  return bytes;
}

}  // namespace

CommonSearch::CommonSearch(Communicator& communicator, std::size_t most, Duration patience)
    : communicator_(communicator),
      library_(Library::get()),
      upload_(std::max<std::size_t>(most, 1), "what is runnable here"),
      reduced_(std::max<std::size_t>(most, 1), "what is runnable on all members"),
      answer_(sizeof(kernels::Answer), "the answer of an agreement"),
      stream_(cuda::make_stream(cuda::Priority::Highest)) {
  new (answer_.host()) kernels::Answer{{}, kNoAnswer};
  try {
    warm_up(patience);
  } catch (...) {
    end();
    throw;
  }
}

CommonSearch::~CommonSearch() { end(); }

void CommonSearch::end() noexcept {
  if (running()) communicator_.abort();
  // What is enqueued uses the memory, and runs to its end without the communicator too.
  const cuda::RelaxedCaptureMode relaxed;
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

std::span<std::uint8_t> CommonSearch::bytes() noexcept {
  return {reinterpret_cast<std::uint8_t*>(upload_.host()), upload_.size()};
}

kernels::Answer& CommonSearch::answer() const noexcept {
  return *reinterpret_cast<kernels::Answer*>(answer_.host());
}

/// What connects the members and loads the kernel should not be part of a decision.
void CommonSearch::warm_up(Duration patience) {
  const host::SteadyClock clock;
  const Time until = clock.now() + patience;
  start(kNoAttempt, {{{0, 1, 0}}});
  while (!ended()) {
    if (clock.now() > until)
      throw Error(communicator_.place().name + ": not all members began to agree in time");
    std::this_thread::yield();
  }
}

void CommonSearch::start(std::uint64_t attempt, const kernels::Windows& windows) {
  const std::size_t bytes = bytes_of(windows);
  const cuda::RelaxedCaptureMode relaxed;
  cuda::check(cudaMemcpyAsync(reduced_.data(), upload_.host(), bytes, cudaMemcpyHostToDevice, stream_.get()),
              "uploading what is runnable here");
  attempt_ = attempt;
  windows_ = windows;
  phase_ = Phase::Reducing;
  const ncclResult_t result = library_.all_reduce(reduced_.data(), reduced_.data(), bytes, ncclUint8, ncclMin,
                                                  communicator_.get(), stream_.get());
  if (communicator_.over(result, kReducing)) search();
}

void CommonSearch::search() {
  enqueue_first_common(reinterpret_cast<const std::uint8_t*>(reduced_.data()), windows_, attempt_,
                       reinterpret_cast<kernels::Answer*>(answer_.device()), stream_.get());
  phase_ = Phase::Searching;
}

bool CommonSearch::ended() {
  if (phase_ == Phase::Reducing && communicator_.ready(kReducing)) {
    const cuda::RelaxedCaptureMode relaxed;
    search();
  }
  if (phase_ != Phase::Searching ||
      std::atomic_ref(answer().attempt).load(std::memory_order_acquire) != attempt_)
    return false;
  phase_ = Phase::Ended;
  return true;
}

}  // namespace sluice::nccl
