#include "sluice/host/iteration_report.hpp"

#include <algorithm>
#include <utility>

namespace sluice::host {

IterationReport::IterationReport(std::vector<RankReport> reports) : ranks(std::move(reports)) {
  const auto by_start = [](const RankReport& a, const RankReport& b) { return a.started < b.started; };
  const auto by_end = [](const RankReport& a, const RankReport& b) { return a.ended < b.ended; };
  started = std::min_element(ranks.begin(), ranks.end(), by_start)->started;
  ended = std::max_element(ranks.begin(), ranks.end(), by_end)->ended;
}

double IterationReport::bubble_fraction() const {
  Duration busy{0};
  for (const RankReport& rank : ranks) busy += rank.busy;
  const double whole = static_cast<double>(duration().count()) * static_cast<double>(ranks.size());
  return whole > 0 ? 1.0 - static_cast<double>(busy.count()) / whole : 0.0;
}

}  // namespace sluice::host
