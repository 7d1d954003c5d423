#pragma once

#include <sys/types.h>

#include <cstddef>

namespace sluice::cuda {

/// Host memory without a name that a process shares with others: nothing is left of it when all who use it
/// are gone, however they end.
class IpcSegment {
 public:
  /// New memory, filled with zeros.
  /// @throws Error
  explicit IpcSegment(std::size_t bytes);
  /// That of another process of this host.
  /// @param descriptor as the other process has it
  /// @throws Error if it cannot be reached or has not that many bytes
  IpcSegment(pid_t process, int descriptor, std::size_t bytes);
  ~IpcSegment();
  IpcSegment(const IpcSegment&) = delete;
  IpcSegment& operator=(const IpcSegment&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  void map();

  int descriptor_ = -1;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace sluice::cuda
