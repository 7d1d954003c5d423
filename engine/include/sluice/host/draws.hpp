#pragma once

#include <cstdint>
#include <initializer_list>

/// Random draws without state: a draw is a function of the integers that name it.
///
/// Two runs that ask for the same draw get the same number, whatever else they drew and in which
/// order. The bits are exact on every machine; `normal` and `exponential` pass through the maths
/// library, so their last binary digit may differ between machines.
namespace sluice::host::draws {

/// The integers that name a draw. Order and number matter.
using Key = std::initializer_list<std::uint64_t>;

/// 64 random bits: the key's integers absorbed one by one through the finaliser of splitmix64
/// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
[[nodiscard]] std::uint64_t bits(Key key) noexcept;

/// Uniform in [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform(Key key) noexcept;

/// Standard normal, at most `kMaxNormal` in magnitude.
[[nodiscard]] double normal(Key key) noexcept;

/// Exponential of mean 1, at most `kMaxExponential`.
[[nodiscard]] double exponential(Key key) noexcept;

inline constexpr double kMaxNormal = 8.6;
inline constexpr double kMaxExponential = 36.8;

}  // namespace sluice::host::draws
