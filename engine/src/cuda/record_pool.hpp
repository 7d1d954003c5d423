#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::cuda {

/// Records that come and go without an allocation, each known by a number. A record has a `next_free`.
template <typename Record>
class RecordPool {
 public:
  explicit RecordPool(std::size_t size) : records_(size) {
    // The first one is taken first.
    for (auto record = records_.rbegin(); record != records_.rend(); ++record) give_back(*record);
  }
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  /// Null when all are in use.
  [[nodiscard]] Record* take() noexcept {
    if (free_ == nullptr) return nullptr;
    return std::exchange(free_, free_->next_free);
  }
  void give_back(Record& record) noexcept { record.next_free = std::exchange(free_, &record); }

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] std::size_t number_of(const Record& record) const noexcept {
    return static_cast<std::size_t>(&record - records_.data());
  }
  [[nodiscard]] Record& operator[](std::size_t number) noexcept { return records_[number]; }
  [[nodiscard]] auto begin() noexcept { return records_.begin(); }
  [[nodiscard]] auto end() noexcept { return records_.end(); }
  [[nodiscard]] auto begin() const noexcept { return records_.begin(); }
  [[nodiscard]] auto end() const noexcept { return records_.end(); }

 private:
  std::vector<Record> records_;
  Record* free_ = nullptr;
};

}  // namespace sluice::cuda
