#include "option/profile_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <string_view>
#include <system_error>

#include "option/units.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

constexpr const char* kField = "profile-iterations";

std::optional<std::uint64_t> parse_index(std::string_view text) {
  std::uint64_t index = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, index);
  return error == std::errc{} && rest == end ? std::optional(index) : std::nullopt;
}

}  // namespace

void ProfileOptions::declare(CLI::App& command) {
  constexpr const char* group = "Profiling";
  command
      .add_flag("--nvtx", nvtx,
                "Annotate tasks, waits, arrivals and decisions for NVTX tools such as Nsight Systems")
      ->group(group);
  command
      .add_option("--profile-iterations", profile_iterations,
                  "Iterations for a profiler to capture, as in 10-12: the NVTX range `profile` of the domain "
                  "`sluice`, and cudaProfilerStart/Stop where the CUDA runtime is loaded")
      ->group(group);
}

const char* ProfileOptions::given() const noexcept {
  if (nvtx) return "nvtx";
  return profile_iterations.empty() ? "" : kField;
}

void ProfileOptions::check() const {
  [[maybe_unused]] const auto checked = iterations();
  if (!SLUICE_HAVE_NVTX && used()) throw ConfigError(given(), "this build has no NVTX");
}

void ProfileOptions::check_within(std::uint64_t last) const {
  const std::optional<Iterations> wanted = iterations();
  if (!wanted || wanted->last <= last) return;
  throw ConfigError(kField, fmt::format("{} is beyond the last iteration, {}", wanted->last, last));
}

std::optional<ProfileOptions::Iterations> ProfileOptions::iterations() const {
  if (profile_iterations.empty()) return std::nullopt;
  return parse_iterations(profile_iterations);
}

ProfileOptions::Iterations parse_iterations(const std::string& text) {
  const std::string_view all = text;
  const std::size_t dash = all.find('-');
  const auto first = parse_index(all.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_index(all.substr(dash + 1));
  if (!first || !last)
    throw ConfigError(kField, fmt::format("{} is not a range of iterations such as 10-12", in_quotes(text)));
  if (*first > *last) throw ConfigError(kField, fmt::format("{} ends before it begins", in_quotes(text)));
  return {*first, *last};
}

}  // namespace sluice::tools
