#pragma once

#include <cstddef>
#include <memory>

namespace sluice::cuda {

/// Bytes of device memory, aligned as cudaMalloc does. Freeing them waits for the device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// @param what it is for: named in the error
  /// @throws CudaError with the bytes asked for and those free
  DeviceMemory(std::size_t bytes, const char* what);

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

/// Pinned host memory that the device can write, filled with zeros.
class MappedMemory {
 public:
  MappedMemory() = default;
  /// @throws CudaError
  MappedMemory(std::size_t bytes, const char* what);

  /// As the host sees it.
  [[nodiscard]] std::byte* host() const noexcept { return host_.get(); }
  /// As the device sees it.
  [[nodiscard]] std::byte* device() const noexcept { return device_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> host_;
  std::byte* device_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice::cuda
