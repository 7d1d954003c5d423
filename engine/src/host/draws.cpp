#include "sluice/host/draws.hpp"

#include <cmath>
#include <numbers>

namespace sluice::host::draws {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

constexpr std::uint64_t finalise(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

constexpr double unit_interval(std::uint64_t word) noexcept {
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

}  // namespace

std::uint64_t bits(Key key) noexcept {
  std::uint64_t state = finalise(key.size() + kGolden);
  for (const std::uint64_t part : key) state = finalise((state ^ part) + kGolden);
  return state;
}

double uniform(Key key) noexcept { return unit_interval(bits(key)); }

double normal(Key key) noexcept {
  const std::uint64_t first = bits(key);
  const double radius = std::sqrt(-2.0 * std::log1p(-unit_interval(first)));
  return radius * std::cos(2.0 * std::numbers::pi * unit_interval(finalise(first + kGolden)));
}

double exponential(Key key) noexcept { return -std::log1p(-uniform(key)); }

}  // namespace sluice::host::draws
