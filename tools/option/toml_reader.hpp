#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::tools {

/// Parses a file that somebody else wrote.
/// @param source its name in messages
/// @throws ConfigError naming `scenario`, with line and column
[[nodiscard]] toml::table parse_toml(std::string_view text, const std::string& source);

/// Reads the keys of one table and refuses what it does not know.
///
/// Every error is a ConfigError that names the key with its path (`links[0].edge`) and gives the line.
class TomlReader {
 public:
  /// @param path of the table; empty for the file itself. The table outlives the reader.
  TomlReader(const toml::table& table, std::string path) : table_(&table), path_(std::move(path)) {}

  [[nodiscard]] std::string field(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return table_->contains(key); }
  [[nodiscard]] bool is_list(std::string_view key) const { return has(key) && table_->get(key)->is_array(); }

  /// A whole number in [least, most].
  [[nodiscard]] std::optional<std::uint64_t> whole(std::string_view key, std::uint64_t least,
                                                   std::uint64_t most);
  /// A finite number in [least, most].
  [[nodiscard]] std::optional<double> number(std::string_view key, double least, double most);
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// One of the names: its position.
  [[nodiscard]] std::optional<std::size_t> one_of(std::string_view key,
                                                  const std::vector<std::string_view>& names);
  /// A time such as "10ms", in nanoseconds.
  [[nodiscard]] std::optional<double> nanoseconds(std::string_view key);
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> wholes(std::string_view key, std::uint64_t least,
                                                                 std::uint64_t most, std::size_t longest);
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key, double least, double most,
                                                           std::size_t longest);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key, std::size_t longest);
  /// A list of pairs of whole numbers in [0, most].
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs(std::string_view key,
                                                                           std::uint64_t most,
                                                                           std::size_t longest);
  [[nodiscard]] std::optional<TomlReader> table(std::string_view key);
  [[nodiscard]] std::vector<TomlReader> tables(std::string_view key);

  /// Of the key in the file, or of the table if it is not there.
  [[nodiscard]] std::size_t line(std::string_view key) const;

  /// @throws ConfigError naming the first key that nobody has asked for
  void finish() const;
  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const;
  [[noreturn]] void missing(std::string_view key) const;

 private:
  const toml::node* find(std::string_view key);
  const toml::array* find_array(std::string_view key, std::size_t longest);
  [[nodiscard]] std::uint64_t whole_of(const toml::node& node, const std::string& name, std::uint64_t least,
                                       std::uint64_t most) const;
  [[nodiscard]] double number_of(const toml::node& node, const std::string& name, double least,
                                 double most) const;

  const toml::table* table_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace sluice::tools
