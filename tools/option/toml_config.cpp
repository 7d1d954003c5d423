#include "option/toml_config.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

toml::table read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw ConfigError("config", path + " is a folder");
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    const toml::source_region& where = error.source();
    if (where.begin.line == 0) throw ConfigError("config", fmt::format("{}: {}", path, error.description()));
    throw ConfigError("config", fmt::format("{}, line {}, column {}: {}", path, where.begin.line,
                                            where.begin.column, error.description()));
  }
}

/// A scalar as the command line would spell it.
std::string spell(const std::string& key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto number = node.value_exact<std::int64_t>()) return fmt::format("{}", *number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  throw ConfigError(key, "must be a string, a number or a truth value");
}

void apply(CLI::App& command, const std::string& key, const toml::node& node) {
  CLI::Option* option = key == "config" ? nullptr : command.get_option_no_throw("--" + key);
  if (option == nullptr || key == "help") throw ConfigError(key, "is not an option of " + command.get_name());
  if (option->count() > 0) return;
  if (const toml::array* values = node.as_array()) {
    if (option->get_items_expected_max() < 2) throw ConfigError(key, "takes one value, not a list");
    for (const toml::node& value : *values) option->add_result(spell(key, value));
  } else {
    option->add_result(spell(key, node));
  }
  try {
    option->run_callback();
  } catch (const CLI::Error& error) {
    throw ConfigError(key, error.what());
  }
}

}  // namespace

void apply_toml(CLI::App& command, const std::string& path, const std::set<std::string>& ignored) {
  const toml::table table = read(path);
  for (const auto& [key, node] : table) {
    if (ignored.count(std::string(key.str())) == 0) apply(command, std::string(key.str()), node);
  }
}

}  // namespace sluice::tools
