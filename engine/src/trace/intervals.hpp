#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sluice/clock.hpp"

namespace sluice::trace {

/// A set of points in time: disjoint half-open intervals, ascending.
class Intervals {
 public:
  Intervals() = default;
  /// Their union; empty and reversed ones count for nothing.
  explicit Intervals(std::vector<std::pair<Time, Time>> any) {
    std::sort(any.begin(), any.end());
    for (const auto& [from, to] : any) {
      if (from >= to) continue;
      if (parts_.empty() || parts_.back().second < from) {
        parts_.emplace_back(from, to);
      } else {
        parts_.back().second = std::max(parts_.back().second, to);
      }
    }
  }

  [[nodiscard]] const std::vector<std::pair<Time, Time>>& parts() const noexcept { return parts_; }

  [[nodiscard]] Intervals united(const Intervals& other) const {
    std::vector<std::pair<Time, Time>> all = parts_;
    all.insert(all.end(), other.parts_.begin(), other.parts_.end());
    return Intervals(std::move(all));
  }

  [[nodiscard]] Intervals common(const Intervals& other) const {
    std::vector<std::pair<Time, Time>> both;
    for (auto a = parts_.begin(), b = other.parts_.begin(); a != parts_.end() && b != other.parts_.end();) {
      both.emplace_back(std::max(a->first, b->first), std::min(a->second, b->second));
      (a->second < b->second ? a : b)++;
    }
    return Intervals(std::move(both));
  }

  [[nodiscard]] Intervals without(const Intervals& other) const {
    std::vector<std::pair<Time, Time>> rest;
    auto b = other.parts_.begin();
    for (auto [from, to] : parts_) {
      while (b != other.parts_.end() && b->second <= from) ++b;
      for (auto each = b; each != other.parts_.end() && each->first < to; ++each) {
        rest.emplace_back(from, each->first);
        from = std::max(from, each->second);
      }
      rest.emplace_back(from, to);
    }
    return Intervals(std::move(rest));
  }

  [[nodiscard]] Duration length() const noexcept {
    Duration sum{0};
    for (const auto& [from, to] : parts_) sum += to - from;
    return sum;
  }

  /// The points within `[from, to)`.
  [[nodiscard]] Intervals within(Time from, Time to) const {
    Intervals cut;
    const auto after = [](Time time, const auto& part) { return time < part.second; };
    for (auto at = std::upper_bound(parts_.begin(), parts_.end(), from, after);
         at != parts_.end() && at->first < to; ++at)
      cut.parts_.emplace_back(std::max(from, at->first), std::min(to, at->second));
    return cut;
  }

 private:
  std::vector<std::pair<Time, Time>> parts_;
};

}  // namespace sluice::trace
