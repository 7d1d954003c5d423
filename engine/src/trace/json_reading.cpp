#include "json_reading.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sluice/error.hpp"

namespace sluice::trace::reading {
namespace {

constexpr std::size_t kLongestQuote = 40;

/// The value as an error shows it: short, and without what is not UTF-8.
std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_object() ? "an object" : "an array";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongestQuote) text = text.substr(0, kLongestQuote) + "...";
  return text;
}

std::string expected_number(std::uint64_t least, std::uint64_t most, const nlohmann::json& value) {
  return "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
         shown(value);
}

bool within(const nlohmann::json& value, std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_unsigned()) return false;
  const auto number = value.get<std::uint64_t>();
  return number >= least && number <= most;
}

}  // namespace

void Entry::fail(const std::string& reason) const { throw ConfigError(path_, reason); }

void Entry::expect_object(std::initializer_list<std::string_view> names) const {
  if (!value_.is_object()) fail("must be an object, not " + shown(value_));
  for (const std::string_view name : names) (void)at(name);
  for (const auto& [name, unused] : value_.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail("has an unknown entry " + shown(nlohmann::json(name)));
  }
}

Entry Entry::at(std::string_view name) const {
  const std::string path = path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  const auto found = value_.find(name);
  if (found == value_.end()) throw ConfigError(path, "is missing");
  return {*found, path};
}

std::size_t Entry::size() const {
  if (!value_.is_array()) fail("must be an array, not " + shown(value_));
  return value_.size();
}

Entry Entry::at(std::size_t index) const {
  return {value_[index], path_ + "[" + std::to_string(index) + "]"};
}

std::uint64_t Entry::number(std::uint64_t least, std::uint64_t most) const {
  if (!within(value_, least, most)) fail(expected_number(least, most, value_));
  return value_.get<std::uint64_t>();
}

bool Entry::boolean() const {
  if (!value_.is_boolean()) fail("must be true or false, not " + shown(value_));
  return value_.get<bool>();
}

std::string Entry::text() const {
  if (!value_.is_string()) fail("must be a string, not " + shown(value_));
  return value_.get<std::string>();
}

Table::Table(const Entry& entry, std::span<const std::string_view> columns)
    : entry_(entry), columns_(columns) {
  entry.expect_object({"columns", "rows"});
  const Entry given = entry.at("columns");
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (i >= columns.size() || given.at(i).text() != columns[i])
      given.at(i).fail(shown(given.at(i).value()) + " is not column " + std::to_string(i) +
                       " of this version");
  }
  if (given.size() < columns.size()) given.fail("lacks " + std::string(columns[given.size()]));
  rows_ = entry.at("rows").size();
}

const nlohmann::json& Table::cell(std::size_t row, std::size_t column) const {
  const nlohmann::json& cells = entry_.value()["rows"][row];
  if (!cells.is_array() || cells.size() != columns_.size()) {
    throw ConfigError(entry_.path() + "[" + std::to_string(row) + "]",
                      "must be an array of " + std::to_string(columns_.size()) + " numbers");
  }
  return cells[column];
}

std::uint64_t Table::number(std::size_t row, std::size_t column, std::uint64_t most) const {
  const nlohmann::json& value = cell(row, column);
  if (!within(value, 0, most)) fail(row, column, expected_number(0, most, value));
  return value.get<std::uint64_t>();
}

Time Table::time(std::size_t row, std::size_t column, Time latest) const {
  return Time(static_cast<Time::rep>(number(row, column, static_cast<std::uint64_t>(latest.count()))));
}

void Table::fail(std::size_t row, std::size_t column, const std::string& reason) const {
  throw ConfigError(entry_.path() + "[" + std::to_string(row) + "]." + std::string(columns_[column]), reason);
}

}  // namespace sluice::trace::reading
