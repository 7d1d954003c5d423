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
/// Of a level beside a tail.
constexpr std::uint64_t kBeside = 0x64656c61792d3264;

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
  DelayModel model;
  if (!text.starts_with(tail)) {
    model.level_ = parse_level(text, text);
    return model;
  }
  const std::size_t plus = text.find("+j");
  model.tail_ =
      parse_tail(text.substr(tail.size(), plus == std::string_view::npos ? plus : plus - tail.size()));
  if (plus != std::string_view::npos) model.level_ = parse_level(text.substr(plus + 1), text);
  return model;
}

DelayModel::Level DelayModel::parse_level(std::string_view name, std::string_view whole) {
  if (name == "j0") return {};
  if (name == "j1") return {0.1, 5 * kNsPerMs, 0.5};
  if (name == "j2") return {0.2, 10 * kNsPerMs, 1.0};
  if (name == "j3") return {0.3, 15 * kNsPerMs, 1.5};
  refuse("must be j0, j1, j2, j3 or tail:p,mean, or both as tail:p,mean+j1, not " + quoted(whole));
}

DelayModel::Tail DelayModel::parse_tail(std::string_view parameters) {
  const std::size_t comma = parameters.find(',');
  if (comma == std::string_view::npos) refuse("`tail:p,mean` has no comma in " + quoted(parameters));
  const double probability = bounded("p", parameters.substr(0, comma), 1, "0 to 1");
  const double mean_ms =
      bounded("mean", parameters.substr(comma + 1), kLongestMeanMs, "0 to 600000 milliseconds");
  return {probability, mean_ms * kNsPerMs};
}

Duration DelayModel::draw(std::uint64_t seed, const MessageId& message, Duration compute_average) const {
  const auto direction = static_cast<std::uint64_t>(message.direction);
  const auto with_message = [&](auto distribution, std::uint64_t stream) {
    return distribution({stream, seed, message.iteration, message.edge, direction, message.microbatch});
  };
  Duration delay{0};
  if (tail_.probability > 0 && with_message(draws::uniform, kWhether) < tail_.probability)
    delay += Duration(std::llround(tail_.mean_ns * with_message(draws::exponential, kHowLong)));
  const std::uint64_t beside = tail_.probability > 0 ? kBeside : 0;
  if (level_.probability > 0 && with_message(draws::uniform, kWhether ^ beside) < level_.probability) {
    const double longer = std::max(level_.base_ns, static_cast<double>(compute_average.count()));
    delay += Duration(
        std::llround(level_.alpha * longer * (0.5 + with_message(draws::uniform, kHowLong ^ beside))));
  }
  return delay;
}

}  // namespace sluice::host
