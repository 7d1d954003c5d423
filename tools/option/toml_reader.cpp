#include "option/toml_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "option/units.hpp"
#include "sluice/error.hpp"

namespace sluice::tools {
namespace {

[[noreturn]] void refuse_node(const toml::node& node, const std::string& name, const std::string& reason) {
  throw ConfigError(name, fmt::format("{} (line {})", reason, node.source().begin.line));
}

/// Characters of a key that are fit for one line.
std::string printable(std::string_view key) {
  std::string text(key.substr(0, 40));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    throw ConfigError("scenario", fmt::format("{}, line {}, column {}: {}", source, at.line, at.column,
                                              error.description()));
  }
}

std::string TomlReader::field(std::string_view key) const {
  return path_.empty() ? printable(key) : path_ + "." + printable(key);
}

std::size_t TomlReader::line(std::string_view key) const {
  const toml::node* node = table_->get(key);
  return (node != nullptr ? *node : *table_).source().begin.line;
}

void TomlReader::refuse(std::string_view key, const std::string& reason) const {
  const toml::node* node = table_->get(key);
  refuse_node(node != nullptr ? *node : *table_, field(key), reason);
}

void TomlReader::missing(std::string_view key) const { refuse_node(*table_, field(key), "is missing"); }

const toml::node* TomlReader::find(std::string_view key) {
  asked_.emplace(key);
  return table_->get(key);
}

std::uint64_t TomlReader::whole_of(const toml::node& node, const std::string& name, std::uint64_t least,
                                   std::uint64_t most) const {
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0 || static_cast<std::uint64_t>(*value) < least ||
      static_cast<std::uint64_t>(*value) > most) {
    refuse_node(node, name, fmt::format("must be a whole number in {} to {}", least, most));
  }
  return static_cast<std::uint64_t>(*value);
}

double TomlReader::number_of(const toml::node& node, const std::string& name, double least,
                             double most) const {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !(*value >= least && *value <= most))
    refuse_node(node, name, fmt::format("must be a number in {} to {}", least, most));
  return *value;
}

std::optional<std::uint64_t> TomlReader::whole(std::string_view key, std::uint64_t least,
                                               std::uint64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  return whole_of(*node, field(key), least, most);
}

std::optional<double> TomlReader::number(std::string_view key, double least, double most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  return number_of(*node, field(key), least, most);
}

std::optional<std::string> TomlReader::text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  auto value = node->value_exact<std::string>();
  if (!value) refuse_node(*node, field(key), "must be a string");
  return value;
}

std::optional<std::size_t> TomlReader::one_of(std::string_view key,
                                              const std::vector<std::string_view>& names) {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto at = std::find(names.begin(), names.end(), *value);
  if (at == names.end())
    refuse(key, fmt::format("{} is not one of {}", in_quotes(*value), fmt::join(names, ", ")));
  return static_cast<std::size_t>(at - names.begin());
}

std::optional<double> TomlReader::nanoseconds(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value_exact<std::string>();
  if (!value) refuse_node(*node, field(key), "must be a time in quotes such as \"10ms\"");
  try {
    return parse_nanoseconds(field(key), *value);
  } catch (const ConfigError& error) {
    throw ConfigError(field(key), fmt::format("{} (line {})", error.what() + field(key).size() + 2,
                                              node->source().begin.line));
  }
}

const toml::array* TomlReader::find_array(std::string_view key, std::size_t longest) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  const toml::array* array = node->as_array();
  if (array == nullptr) refuse_node(*node, field(key), "must be a list");
  if (array->size() > longest)
    refuse_node(*node, field(key), fmt::format("has {} entries, more than {}", array->size(), longest));
  return array;
}

std::optional<std::vector<std::uint64_t>> TomlReader::wholes(std::string_view key, std::uint64_t least,
                                                             std::uint64_t most, std::size_t longest) {
  const toml::array* array = find_array(key, longest);
  if (array == nullptr) return std::nullopt;
  std::vector<std::uint64_t> values;
  for (const toml::node& node : *array)
    values.push_back(whole_of(node, fmt::format("{}[{}]", field(key), values.size()), least, most));
  return values;
}

std::optional<std::vector<double>> TomlReader::numbers(std::string_view key, double least, double most,
                                                       std::size_t longest) {
  const toml::array* array = find_array(key, longest);
  if (array == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const toml::node& node : *array)
    values.push_back(number_of(node, fmt::format("{}[{}]", field(key), values.size()), least, most));
  return values;
}

std::vector<std::string> TomlReader::texts(std::string_view key, std::size_t longest) {
  std::vector<std::string> values;
  const toml::array* array = find_array(key, longest);
  if (array == nullptr) return values;
  for (const toml::node& node : *array) {
    const auto value = node.value_exact<std::string>();
    if (!value) refuse_node(node, fmt::format("{}[{}]", field(key), values.size()), "must be a string");
    values.push_back(*value);
  }
  return values;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> TomlReader::pairs(std::string_view key,
                                                                       std::uint64_t most,
                                                                       std::size_t longest) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values;
  const toml::array* array = find_array(key, longest);
  if (array == nullptr) return values;
  for (const toml::node& node : *array) {
    const std::string name = fmt::format("{}[{}]", field(key), values.size());
    const toml::array* pair = node.as_array();
    if (pair == nullptr || pair->size() != 2) refuse_node(node, name, "must be two chunks such as [0, 1]");
    values.emplace_back(whole_of(*pair->get(0), name, 0, most), whole_of(*pair->get(1), name, 0, most));
  }
  return values;
}

std::optional<TomlReader> TomlReader::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const toml::table* table = node->as_table();
  if (table == nullptr) refuse_node(*node, field(key), "must be a table");
  return TomlReader(*table, field(key));
}

std::vector<TomlReader> TomlReader::tables(std::string_view key) {
  std::vector<TomlReader> readers;
  const toml::node* node = find(key);
  if (node == nullptr) return readers;
  const toml::array* array = node->as_array();
  if (array == nullptr) refuse_node(*node, field(key), fmt::format("must be a list of tables, [[{}]]", key));
  for (const toml::node& each : *array) {
    const std::string name = fmt::format("{}[{}]", field(key), readers.size());
    const toml::table* table = each.as_table();
    if (table == nullptr) refuse_node(each, name, "must be a table");
    readers.emplace_back(*table, name);
  }
  return readers;
}

void TomlReader::finish() const {
  for (const auto& [key, node] : *table_) {
    if (!asked_.contains(key.str())) refuse_node(node, field(key.str()), "is not a key of this table");
  }
}

}  // namespace sluice::tools
