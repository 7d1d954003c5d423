#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paper/paper_row.hpp"
#include "report/report_table.hpp"

namespace sluice::tools {

/// How `sluice reproduce` simulates.
struct ReproduceSettings {
  /// Draws of each method; as the scenario has it if not given.
  std::optional<std::uint64_t> seeds;
  /// 0 for one a core; changes nothing but the time it takes.
  unsigned threads = 0;
  /// Called before each simulation of a table with the number of those done.
  std::function<void(std::size_t done, std::size_t all, const std::string& what)> progress =
      [](std::size_t, std::size_t, const std::string&) {};
};

/// Simulates rows of one published table, and puts what was published beside it.
/// @param rows not empty, of one table
[[nodiscard]] ReportTable reproduce_rows(const std::vector<PaperRow>& rows,
                                         const ReproduceSettings& settings);

}  // namespace sluice::tools
