#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "sluice/clock.hpp"

/// Strict access to a parsed document: every refusal names the entry.
namespace sluice::trace::reading {

/// A value of the document and where it is.
class Entry {
 public:
  Entry(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const nlohmann::json& value() const noexcept { return value_; }
  /// @throws ConfigError naming the entry
  [[noreturn]] void fail(const std::string& reason) const;

  /// Makes sure that it is an object of exactly these entries.
  void expect_object(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] Entry at(std::string_view name) const;
  /// Entries of an array.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] Entry at(std::size_t index) const;

  [[nodiscard]] std::uint64_t number(std::uint64_t least, std::uint64_t most) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;

 private:
  const nlohmann::json& value_;
  std::string path_;
};

/// A table whose columns are as given; each row has a whole number for each of them.
class Table {
 public:
  Table(const Entry& entry, std::span<const std::string_view> columns);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t number(std::size_t row, std::size_t column, std::uint64_t most) const;
  [[nodiscard]] Time time(std::size_t row, std::size_t column, Time latest) const;
  /// @throws ConfigError naming the cell
  [[noreturn]] void fail(std::size_t row, std::size_t column, const std::string& reason) const;

 private:
  [[nodiscard]] const nlohmann::json& cell(std::size_t row, std::size_t column) const;

  Entry entry_;
  std::span<const std::string_view> columns_;
  std::size_t rows_ = 0;
};

}  // namespace sluice::trace::reading
