#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace fakecuda {

/// Who reads and writes an allocation at the moment, in memory that all its processes share: what
/// ThreadSanitizer cannot see, two processes at the same bytes, is found here.
class Activity {
 public:
  struct Access {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool write = false;
    int process = 0;
  };

  /// @param clash out: an access under way that overlaps this one, where one of the two writes
  /// @return the place to give back; none if all are taken
  std::optional<std::size_t> enter(const Access& access, std::optional<Access>& clash);
  void leave(std::size_t place);

 private:
  void lock();

  std::atomic<std::uint32_t> locked_;
  std::array<Access, 64> under_way_;
};

}  // namespace fakecuda
