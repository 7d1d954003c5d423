#include "chance.hpp"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "controls.hpp"
#include "settings.hpp"

namespace fakecuda {
namespace {

std::atomic<int>& most_delay_us() {
  static std::atomic<int> value{static_cast<int>(setting("FAKECUDA_DELAY_US", 0))};
  return value;
}

std::atomic<unsigned>& seed() {
  static std::atomic<unsigned> value{static_cast<unsigned>(setting("FAKECUDA_SEED", 1))};
  return value;
}

std::mt19937& engine() {
  static std::atomic<unsigned> workers{0};
  thread_local std::mt19937 numbers = [] {
    std::seed_seq words{seed().load(), workers.fetch_add(1)};
    return std::mt19937(words);
  }();
  return numbers;
}

}  // namespace

std::size_t draw(std::size_t below) {
  return std::uniform_int_distribution<std::size_t>(0, below - 1)(engine());
}

void delay() {
  const int most = most_delay_us().load();
  if (most <= 0 || draw(2) == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(draw(static_cast<std::size_t>(most)) + 1));
}

}  // namespace fakecuda

void fakecuda_delay_us(int most) { fakecuda::most_delay_us().store(most); }

void fakecuda_seed(unsigned seed) { fakecuda::seed().store(seed); }
