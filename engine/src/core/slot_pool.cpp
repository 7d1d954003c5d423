#include "sluice/slot_pool.hpp"

namespace sluice {

SlotPool::SlotPool(std::uint32_t size) : size_(size) {
  free_.reserve(size);
  for (std::uint32_t slot = size; slot-- > 0;) free_.push_back(slot);
}

}  // namespace sluice
