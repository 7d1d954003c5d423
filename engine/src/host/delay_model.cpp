#include "sluice/host/delay_model.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "parse.hpp"
#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"

namespace sluice::host {
namespace {

/// Keep these draws apart from each other and from those of other models under the same seed.
constexpr std::uint64_t kWhether = 0x64656c61792d7768;
constexpr std::uint64_t kHowLong = 0x64656c61792d6c6e;

constexpr double kNsPerMs = 1e6;
constexpr double kLongestMeanMs = std::chrono::duration<double, std::milli>(DelayModel::kLongestMean).count();

static_assert(kLongestMeanMs * kNsPerMs * draws::kMaxExponential < 9.2e18, "every draw fits into a Duration");

[[noreturn]] void refuse(const std::string& reason) { throw ConfigError("jitter", reason); }

/// A number that is all of `text` and lies in [0, largest].
double bounded(std::string_view what, std::string_view text, double largest, std::string_view range) {
  const LeadingNumber read = leading_number(text);
  if (read.error != std::errc{} || !read.rest.empty()) {
    refuse(std::string(what) + " of `tail:p,mean` must be a number, not " + quoted(text));
  }
  if (!(read.value >= 0 && read.value <= largest)) {
    refuse(std::string(what) + " of `tail:p,mean` must lie in " + std::string(range) + ", not " +
           quoted(text));
  }
  return read.value;
}

}  // namespace

void ComputeAverage::add(Duration compute) noexcept {
  average_ns_ = 0.9 * average_ns_ + 0.1 * static_cast<double>(compute.count());
}

Duration ComputeAverage::value() const noexcept { return Duration(std::llround(average_ns_)); }

DelayModel DelayModel::parse(std::string_view text) {
  constexpr std::string_view tail = "tail:";
  if (text == "j0") return {};
  if (text == "j1") return {Kind::Level, 0.1, 5 * kNsPerMs, 0.5};
  if (text == "j2") return {Kind::Level, 0.2, 10 * kNsPerMs, 1.0};
  if (text == "j3") return {Kind::Level, 0.3, 15 * kNsPerMs, 1.5};
  if (text.starts_with(tail)) return parse_tail(text.substr(tail.size()));
  refuse("must be j0, j1, j2, j3 or tail:p,mean, not " + quoted(text));
}

DelayModel DelayModel::parse_tail(std::string_view parameters) {
  const std::size_t comma = parameters.find(',');
  if (comma == std::string_view::npos) refuse("`tail:p,mean` has no comma in " + quoted(parameters));
  const double probability = bounded("p", parameters.substr(0, comma), 1, "0 to 1");
  const double mean_ms =
      bounded("mean", parameters.substr(comma + 1), kLongestMeanMs, "0 to 600000 milliseconds");
  return {Kind::Tail, probability, mean_ms * kNsPerMs, 0};
}

Duration DelayModel::draw(std::uint64_t seed, const MessageId& message, Duration compute_average) const {
  const auto direction = static_cast<std::uint64_t>(message.direction);
  const auto with_message = [&](auto distribution, std::uint64_t stream) {
    return distribution({stream, seed, message.iteration, message.edge, direction, message.microbatch});
  };
  if (with_message(draws::uniform, kWhether) >= probability_) return Duration::zero();
  if (kind_ == Kind::Tail)
    return Duration(std::llround(scale_ns_ * with_message(draws::exponential, kHowLong)));
  const double longer = std::max(scale_ns_, static_cast<double>(compute_average.count()));
  return Duration(std::llround(alpha_ * longer * (0.5 + with_message(draws::uniform, kHowLong))));
}

}  // namespace sluice::host
