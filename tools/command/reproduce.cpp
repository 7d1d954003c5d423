#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command/commands.hpp"
#include "option/options.hpp"
#include "paper/hint_grid.hpp"
#include "paper/reproduce_paper.hpp"
#include "paper/reproduce_questions.hpp"
#include "report/progress_bar.hpp"
#include "report/results.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

const std::vector<std::string> kPaperTables = {"1", "2", "3", "6", "7", "8", "limit"};
constexpr const char* kQuestions = "questions";
constexpr const char* kHints = "hints";
constexpr std::uint64_t kMostReproducedSeeds = 100'000;

struct ReproduceOptions {
  std::vector<std::string> tables;
  std::string row;
  std::uint64_t seeds = 0;
  unsigned threads = 0;
  std::string scenarios = std::string(SLUICE_SOURCE_DIR) + "/scenarios";
  OutputOptions output;
};

std::vector<std::string> known_tables() {
  std::vector<std::string> names = kPaperTables;
  names.emplace_back(kQuestions);
  names.emplace_back(kHints);
  return names;
}

void check(const ReproduceOptions& options, const CLI::App& command) {
  const std::vector<std::string> known = known_tables();
  for (const std::string& table : options.tables) {
    if (std::find(known.begin(), known.end(), table) == known.end())
      throw ConfigError("table", fmt::format("'{}' is not one of {}", table, fmt::join(known, ", ")));
  }
  if (command.count("--seeds") > 0 && (options.seeds == 0 || options.seeds > kMostReproducedSeeds))
    throw ConfigError("seeds", fmt::format("must be 1 to {}", kMostReproducedSeeds));
  options.output.check({});
}

/// Rows of the tables asked for whose file or name has the text asked for.
std::vector<PaperRow> chosen_rows(const ReproduceOptions& options, const std::vector<std::string>& tables) {
  const bool paper = std::any_of(tables.begin(), tables.end(), [](const std::string& table) {
    return std::find(kPaperTables.begin(), kPaperTables.end(), table) != kPaperTables.end();
  });
  if (!paper) return {};
  std::vector<PaperRow> rows = read_paper_rows((std::filesystem::path(options.scenarios) / "paper").string());
  std::erase_if(rows, [&](const PaperRow& row) {
    const bool named = row.file.find(options.row) != std::string::npos ||
                       row.scenario.scenario.name.find(options.row) != std::string::npos;
    return !named || std::find(tables.begin(), tables.end(), row.table) == tables.end();
  });
  if (rows.empty()) throw ConfigError("row", fmt::format("'{}' is in the name of none", options.row));
  return rows;
}

std::vector<ReportTable> reproduce_table(const std::string& table, const std::vector<PaperRow>& rows,
                                         const ReproduceOptions& options) {
  ReproduceSettings settings;
  if (options.seeds > 0) settings.seeds = options.seeds;
  settings.threads = options.threads;
  std::optional<ProgressBar> bar;
  settings.progress = [&](std::size_t done, std::size_t all, const std::string& what) {
    if (!bar || done == 0) bar.emplace(table, all);
    bar->show(done, what);
  };
  if (table == kQuestions) return reproduce_questions(settings);
  if (table == kHints) {
    const auto grid = std::filesystem::path(options.scenarios) / "hint_grid.toml";
    return {reproduce_hint_grid(grid.string(), settings)};
  }
  std::vector<PaperRow> of_table;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(of_table),
               [&](const PaperRow& row) { return row.table == table; });
  if (of_table.empty()) return {};
  return {reproduce_rows(of_table, settings)};
}

void run_reproduce(const ReproduceOptions& options, const CLI::App& command) {
  refuse_empty_values(command);
  check(options, command);
  Results results;
  results.summary = {{"config", {{"scenarios", options.scenarios}}}, {"tables", nlohmann::json::array()}};
  if (options.seeds > 0) results.summary["config"]["seeds"] = options.seeds;
  const std::vector<std::string>& tables = options.tables.empty() ? kPaperTables : options.tables;
  const std::vector<PaperRow> rows = chosen_rows(options, tables);
  for (const std::string& name : tables) {
    for (const ReportTable& table : reproduce_table(name, rows, options)) {
      fmt::print("{}\n", table.markdown());
      results.summary["tables"].push_back(table.json);
    }
  }
  write_results(options.output, results);
}

}  // namespace

void add_reproduce(CLI::App& app) {
  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* command = app.add_subcommand(
      "reproduce", "Simulate the published experiments, and print published and simulated side by side");
  command
      ->add_option("--table", options->tables,
                   fmt::format("Tables, separated by commas: {}; without it all but {} and {}",
                               fmt::join(known_tables(), ", "), kQuestions, kHints))
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--row", options->row, "Only rows with this text in their name, such as 'GPT3-Large'");
  command
      ->add_option("--seeds", options->seeds, "Draws of each method; each scenario says how many otherwise")
      ->check(check_whole_number);
  command->add_option("--threads", options->threads, "Threads, 0 for one a core; results do not depend on it")
      ->capture_default_str();
  command->add_option("--scenarios", options->scenarios, "Folder with hint_grid.toml and paper/*.toml")
      ->envname("SLUICE_SCENARIOS")
      ->capture_default_str();
  command->add_option("--json", options->output.json, "Write all figures to this file");
  command->footer(
      "Examples:\n"
      "  sluice reproduce --table 1,2 --json results.json\n"
      "  sluice reproduce --table 1 --row GPT3-Large --seeds 20\n"
      "  sluice reproduce --table questions\n"
      "  sluice reproduce --table hints");
  command->callback([options, command] { run_reproduce(*options, *command); });
}

}  // namespace sluice::tools
