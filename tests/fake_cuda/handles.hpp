#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fakecuda {

/// The objects behind one kind of handle. A handle is a number that is never given out again, so one that is
/// used after its object was destroyed is always recognised.
template <typename Object, typename Handle>
class Handles {
 public:
  /// Between two handles: small values are the runtime's own streams, and a graph's nodes lie behind it.
  static constexpr std::uintptr_t kStep = std::uintptr_t{1} << 24U;

  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const Handle handle = reinterpret_cast<Handle>(kStep * ++made_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  /// Null if there is none.
  [[nodiscard]] std::shared_ptr<Object> find(Handle handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  [[nodiscard]] std::vector<std::shared_ptr<Object>> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<Object>> objects;
    objects.reserve(objects_.size());
    for (const auto& entry : objects_) objects.push_back(entry.second);
    return objects;
  }

  [[nodiscard]] std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return objects_.size();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
  std::uintptr_t made_ = 0;
};

}  // namespace fakecuda
