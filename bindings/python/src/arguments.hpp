#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/rules.hpp"

/// Arguments that Python may give in several forms.
namespace sluice::python {

/// Seconds, or a text such as `10ms`.
using TimeArgument = std::variant<double, std::string>;
/// One for all stages, one a stage, or a text as `--limit` takes it.
using LimitArgument = std::variant<std::int64_t, std::vector<std::int64_t>, std::string>;

/// A whole number in its range.
/// @throws ConfigError naming the field
[[nodiscard]] std::uint32_t whole(const std::string& field, std::int64_t value, std::int64_t least = 1,
                                  std::int64_t most = std::numeric_limits<std::uint32_t>::max());

/// @throws ConfigError naming the field for what is not in 0 to 10 minutes
[[nodiscard]] double nanoseconds(const std::string& field, const TimeArgument& time);
[[nodiscard]] Duration duration(const std::string& field, const TimeArgument& time);

/// One limit a stage.
/// @throws ConfigError naming `limit`
[[nodiscard]] std::vector<std::uint32_t> limits(const LimitArgument& limit, const Pipeline& pipeline);

/// @throws ConfigError naming `rules` or `accumulate`
[[nodiscard]] Rules rules(const std::string& rules, const std::optional<std::string>& accumulate);

/// Refuses what would take more memory than is sensible.
/// @throws ConfigError naming `microbatches`
void check_size(const Pipeline& pipeline);

}  // namespace sluice::python
