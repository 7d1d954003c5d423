#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ipc_segment.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::cuda {

/// Where a rank runs: what decides how another one reaches it.
struct IpcPlace {
  std::array<char, 40> boot{};      ///< of the running kernel: one a host
  std::uint64_t process_names = 0;  ///< the namespace in which `process` counts
  pid_t process = 0;
};

/// @throws Error
[[nodiscard]] IpcPlace this_place();

/// What a rank tells the others when they connect.
struct IpcCard {
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t version = kVersion;
  StageId stage = 0;
  IpcPlace place;
  int device = 0;
  /// Chunks, edges and microbatches of its pipeline.
  std::array<std::uint32_t, 3> pipeline{};
  /// The memory it shares, and a number that lies there.
  int segment = -1;
  std::uint64_t segment_bytes = 0;
  std::uint64_t token = 0;
  /// The block of its slots; without a handle if `handle_error` says why.
  std::uint64_t block_bytes = 0;
  cudaIpcMemHandle_t block{};
  cudaError_t handle_error = cudaSuccess;
  /// For ranks of the same process.
  const std::shared_ptr<IpcSegment>* own_segment = nullptr;
  const std::byte* own_block = nullptr;
};

/// @throws Error unless the bytes are a card of this version
[[nodiscard]] IpcCard read_card(std::uint32_t rank, std::span<const std::byte> bytes);

/// Whether two ranks are threads of one process.
/// @throws Error saying why they cannot reach each other if they do not share a host's names
[[nodiscard]] bool same_process(const IpcPlace& own, const IpcPlace& other);

/// Lets copies between this thread's device and another one of this process go the direct way, where there is
/// one; else they go through the host.
/// @throws CudaError
void reach_device(int device);

/// Device memory of another process.
class ImportedMemory {
 public:
  ImportedMemory() = default;
  /// @throws Error saying why and what to do
  explicit ImportedMemory(const IpcCard& card);

  [[nodiscard]] const std::byte* data() const noexcept { return data_.get(); }
  void release() noexcept { data_.reset(); }

 private:
  struct Close {
    void operator()(std::byte* memory) const noexcept { static_cast<void>(cudaIpcCloseMemHandle(memory)); }
  };
  std::unique_ptr<std::byte, Close> data_;
};

/// Sees a process end.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  /// On a kernel that cannot do it, no end is ever seen.
  explicit ProcessWatch(pid_t process) noexcept;
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  [[nodiscard]] bool ended() const noexcept;

 private:
  int descriptor_ = -1;
  bool gone_ = false;
};

}  // namespace sluice::cuda
