#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace sluice::cuda {

/// Bytes of device memory, aligned as cudaMalloc does. Freeing them waits for the device.
class DeviceMemory {
 public:
  using Release = void (*)(std::byte*) noexcept;

  DeviceMemory() = default;
  /// @param what it is for: named in the error
  /// @throws CudaError with the bytes asked for and those free
  DeviceMemory(std::size_t bytes, const char* what);
  /// Takes over memory that did not come from cudaMalloc.
  /// @param release how it is freed
  DeviceMemory(std::byte* data, std::size_t bytes, Release release) noexcept
      : data_(data, release), size_(bytes) {}

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<std::byte, Release> data_{nullptr, nullptr};
  std::size_t size_ = 0;
};

/// Where device memory comes from: at least so many bytes.
using MemorySource = std::function<DeviceMemory(std::size_t bytes, const char* what)>;

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
