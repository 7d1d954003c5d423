#include "sluice/ready_set.hpp"

#include <algorithm>
#include <string>

#include "sluice/error.hpp"

namespace sluice {

ReadySet::ReadySet(std::uint32_t capacity) : capacity_(capacity) {
  std::uint32_t members = capacity;
  do {
    if (levels_ == kMaxLevels) {
      throw ConfigError("microbatches",
                        std::to_string(capacity) + " tasks a class are more than a ready set holds");
    }
    members = (members + kBits - 1) / kBits;
    level_[levels_++].assign(std::max<std::uint32_t>(members, 1), 0);
  } while (members > kBits);
}

std::uint32_t ReadySet::next(std::uint32_t rank) const noexcept {
  const Words& words = level_[0];
  std::size_t index = (rank + 1) / kBits;
  if (index >= words.size()) return kNone;
  Word word = words[index] & (~Word{0} << ((rank + 1) % kBits));
  while (word == 0) {
    if (++index == words.size()) return kNone;
    word = words[index];
  }
  return static_cast<std::uint32_t>(index * kBits) + static_cast<std::uint32_t>(std::countr_zero(word));
}

void ReadySet::clear() noexcept {
  for (Words& words : level_) std::fill(words.begin(), words.end(), Word{0});
  top_ = 0;
  size_ = 0;
}

}  // namespace sluice
