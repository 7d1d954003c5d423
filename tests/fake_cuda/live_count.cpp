#include "live_count.hpp"

#include <map>
#include <mutex>
#include <string>

namespace fakecuda {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, std::size_t, std::less<>> by_kind;
};

Counts& counts() {
  static auto& value = *new Counts;
  return value;
}

}  // namespace

void count_live(std::string_view kind, int change) {
  const std::lock_guard lock(counts().mutex);
  counts().by_kind[std::string(kind)] += static_cast<std::size_t>(change);
}

std::size_t counted_live(std::string_view kind) {
  const std::lock_guard lock(counts().mutex);
  const auto found = counts().by_kind.find(kind);
  return found == counts().by_kind.end() ? 0 : found->second;
}

}  // namespace fakecuda
