#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/process/bootstrap.hpp"

namespace sluice::test {

/// Where the ranks of one process, one thread each, meet.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::uint32_t ranks) : blobs_(ranks) {}

  /// @throws Error if somebody does not come for long
  std::vector<std::vector<std::byte>> all_gather(std::uint32_t rank, std::span<const std::byte> own);
  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(blobs_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::byte>> blobs_;
  std::vector<std::vector<std::byte>> all_;
  std::uint32_t came_ = 0;
  std::uint64_t round_ = 0;
};

class MemoryBootstrap final : public process::Bootstrap {
 public:
  MemoryBootstrap(MeetingPlace& place, std::uint32_t rank) : place_(place), rank_(rank) {}

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return place_.ranks(); }
  [[nodiscard]] const std::string& host() const noexcept override { return host_; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> own) override {
    return place_.all_gather(rank_, own);
  }

 private:
  MeetingPlace& place_;
  std::uint32_t rank_;
  std::string host_ = "127.0.0.1";
};

}  // namespace sluice::test
