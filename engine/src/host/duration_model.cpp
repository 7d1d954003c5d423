#include "sluice/host/duration_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "parse.hpp"
#include "sluice/error.hpp"
#include "sluice/host/draws.hpp"

namespace sluice::host {
namespace {

/// Keeps these draws apart from those of other models under the same seed.
constexpr std::uint64_t kStream = 0x6475726174696f6e;

constexpr double kLongestNs = std::chrono::duration<double, std::nano>(DurationModel::kLongest).count();

// The longest possible draw fits into a Duration, the largest size included, once it is cut off:
// kLongest * exp(sigma z - sigma^2/2) < 2^63 ns.
static_assert(DurationModel::kMaxSigma * draws::kMaxNormal - 2.0 < 15.21 && kLongestNs * 4.1e6 < 9.2e18);
constexpr double kLargestDrawNs = kLongestNs * 4.1e6;

struct Values {
  std::optional<double> forward, backward, weight_grad, sigma;
};

[[noreturn]] void refuse_durations(const std::string& reason) { throw ConfigError("emulate", reason); }

double number(std::string_view key, std::string_view text, std::string_view& rest) {
  const LeadingNumber read = leading_number(text);
  if (read.error == std::errc::result_out_of_range)
    refuse_durations(quoted(key) + " is out of range: " + quoted(text));
  if (read.error != std::errc{}) refuse_durations(quoted(key) + " needs a number, not " + quoted(text));
  if (!std::isfinite(read.value)) refuse_durations(quoted(key) + " must be finite, not " + quoted(text));
  rest = read.rest;
  return read.value;
}

double nanoseconds(std::string_view key, std::string_view text) {
  struct Unit {
    std::string_view name;
    double ns;
  };
  constexpr std::array<Unit, 4> units{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  std::string_view unit;
  const double value = number(key, text, unit);
  if (unit.empty())
    refuse_durations(quoted(key) + " has no unit in " + quoted(text) + "; use ns, us, ms or s");
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    const double ns = value * known.ns;
    if (ns <= 0) refuse_durations(quoted(key) + " must be positive, not " + quoted(text));
    if (ns < 1) refuse_durations(quoted(key) + " must be at least 1 ns, not " + quoted(text));
    if (ns > kLongestNs) refuse_durations(quoted(key) + " must be at most 10 minutes, not " + quoted(text));
    return ns;
  }
  refuse_durations(quoted(key) + " has the unknown unit " + quoted(unit) + "; use ns, us, ms or s");
}

double log_deviation(std::string_view key, std::string_view text) {
  std::string_view rest;
  const double value = number(key, text, rest);
  if (!rest.empty()) refuse_durations(quoted(key) + " is a plain number, not " + quoted(text));
  if (value < 0 || value > DurationModel::kMaxSigma) {
    refuse_durations(quoted(key) + " must lie in 0 to 2, not " + quoted(text));
  }
  return value;
}

void read_item(std::string_view item, std::size_t position, Values& values) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    refuse_durations("item " + std::to_string(position) + " must be key=value, not " + quoted(item));
  }
  const std::string_view key = item.substr(0, equals);
  const std::string_view text = item.substr(equals + 1);
  std::optional<double>* const value = key == "f"       ? &values.forward
                                       : key == "b"     ? &values.backward
                                       : key == "w"     ? &values.weight_grad
                                       : key == "sigma" ? &values.sigma
                                                        : nullptr;
  if (value == nullptr) {
    refuse_durations("unknown key " + quoted(key) + " in item " + std::to_string(position) +
                     "; use f, b, w or sigma");
  }
  if (value->has_value()) refuse_durations(quoted(key) + " is given twice");
  *value = key == "sigma" ? log_deviation(key, text) : nanoseconds(key, text);
}

Duration rounded(double ns) { return Duration(std::llround(ns)); }

void check_time(const char* field, double ns) {
  if (!(ns >= 0 && ns <= kLongestNs)) throw ConfigError(field, "must lie in 0 to 10 minutes");
}

}  // namespace

DurationModel::DurationModel(const Times& times, double sigma, Spread spread)
    : times_(times), sigma_(sigma), spread_(spread) {
  check_time("forward", times.forward_ns);
  check_time("backward", times.backward_ns);
  check_time("weight-grad", times.weight_grad_ns);
  if (times.weight_grad_ns > times.backward_ns)
    throw ConfigError("weight-grad", "is a part of the backward and cannot be longer");
  if (!(sigma >= 0 && sigma <= kMaxSigma)) throw ConfigError("sigma", "must lie in 0 to 2");
}

DurationModel DurationModel::parse(std::string_view text) {
  if (text.empty()) refuse_durations("is empty; write for example f=10ms,b=20ms");
  Values values;
  std::size_t position = 1;
  for (std::size_t begin = 0; begin <= text.size(); ++position) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    read_item(text.substr(begin, end - begin), position, values);
    begin = end + 1;
  }
  if (!values.forward) refuse_durations("`f` is missing");
  if (!values.backward) refuse_durations("`b` is missing");
  const double weight_grad = values.weight_grad.value_or(*values.backward / 2);
  if (weight_grad >= *values.backward) refuse_durations("`w` is a part of `b` and must be shorter");
  return DurationModel({*values.forward, *values.backward, weight_grad}, values.sigma.value_or(0));
}

DurationModel DurationModel::per_chunk(std::uint32_t chunks_per_stage) const {
  const double chunks = chunks_per_stage;
  return DurationModel(
      {times_.forward_ns / chunks, times_.backward_ns / chunks, times_.weight_grad_ns / chunks}, sigma_,
      spread_);
}

double DurationModel::factor(std::uint64_t seed, std::uint64_t iteration, const Task& task) const {
  if (sigma_ == 0) return 1;
  const auto pass = static_cast<std::uint64_t>(task.pass);
  if (spread_ == Spread::Lognormal) {
    const double z = draws::normal({kStream, seed, iteration, task.chunk, pass, task.microbatch});
    return std::exp(sigma_ * z - sigma_ * sigma_ / 2);
  }
  for (std::uint64_t attempt = 0;; ++attempt) {
    const double z = draws::normal({kStream, seed, iteration, task.chunk, pass, task.microbatch, attempt});
    if (1 + sigma_ * z > 0) return 1 + sigma_ * z;
  }
}

Duration DurationModel::draw(std::uint64_t seed, std::uint64_t iteration, Task task, bool whole,
                             std::uint32_t chunks_per_stage, double size) const {
  const auto part = [&](Pass pass, double mean_ns) {
    const double varied = factor(seed, iteration, {task.microbatch, task.chunk, pass});
    return rounded(std::min(mean_ns / chunks_per_stage * varied * size, kLargestDrawNs));
  };
  switch (task.pass) {
    case Pass::Forward:
      return part(Pass::Forward, times_.forward_ns);
    case Pass::WeightGrad:
      return part(Pass::WeightGrad, times_.weight_grad_ns);
    case Pass::Backward:
      break;
  }
  const Duration input_grad = part(Pass::Backward, times_.backward_ns - times_.weight_grad_ns);
  return whole ? input_grad + part(Pass::WeightGrad, times_.weight_grad_ns) : input_grad;
}

Duration DurationModel::forward() const { return rounded(times_.forward_ns); }
Duration DurationModel::backward() const { return rounded(times_.backward_ns); }
Duration DurationModel::weight_grad() const { return rounded(times_.weight_grad_ns); }

}  // namespace sluice::host
