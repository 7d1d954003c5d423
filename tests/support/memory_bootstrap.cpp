#include "memory_bootstrap.hpp"

#include <chrono>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::test {

std::vector<std::vector<std::byte>> MeetingPlace::all_gather(std::uint32_t rank,
                                                             std::span<const std::byte> own) {
  std::unique_lock lock(mutex_);
  blobs_[rank].assign(own.begin(), own.end());
  const std::uint64_t round = round_;
  if (++came_ == ranks()) {
    all_ = std::exchange(blobs_, std::vector<std::vector<std::byte>>(ranks()));
    came_ = 0;
    ++round_;
    changed_.notify_all();
    return all_;
  }
  if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return round_ != round; }))
    throw Error("not all ranks came to the meeting place");
  return all_;
}

}  // namespace sluice::test
