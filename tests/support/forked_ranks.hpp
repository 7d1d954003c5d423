#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/process/bootstrap.hpp"

namespace sluice::test {

/// Memory that a process shares with those it forks, zero at first.
class SharedMapping {
 public:
  /// @throws Error if there is none
  explicit SharedMapping(std::size_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  [[nodiscard]] void* data() const noexcept { return data_; }
  template <typename T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Where forked ranks meet. Made before they are forked.
class MappedMeeting {
 public:
  explicit MappedMeeting(std::uint32_t ranks);
  ~MappedMeeting();
  MappedMeeting(const MappedMeeting&) = delete;
  MappedMeeting& operator=(const MappedMeeting&) = delete;

  /// A rank's way to the others.
  [[nodiscard]] std::unique_ptr<process::Bootstrap> bootstrap(std::uint32_t rank);

 private:
  class Place;
  struct Row;

  std::uint32_t ranks_;
  SharedMapping rows_;
};

/// How a forked process ended.
struct Ending {
  /// Negative if a signal ended it.
  int code = -1;
  int signal = 0;
};

/// Ranks as forked processes. None of them outlives this.
class ForkedRanks {
 public:
  /// @param work what each rank does; its result is the process's exit code. An exception is printed and
  ///        gives `kException`
  ForkedRanks(std::uint32_t ranks, const std::function<int(process::Bootstrap&)>& work);
  ~ForkedRanks();
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  static constexpr int kException = 99;

  [[nodiscard]] pid_t process(std::uint32_t rank) const { return processes_[rank]; }
  /// Waits for all; those that have not ended by then are killed.
  std::vector<Ending> wait(std::chrono::seconds longest = std::chrono::seconds(60));

 private:
  MappedMeeting meeting_;
  std::vector<pid_t> processes_;
};

/// The calling process runs on one core only.
void pin_to_core(std::uint32_t core);

}  // namespace sluice::test
