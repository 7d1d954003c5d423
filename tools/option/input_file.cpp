#include "option/input_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::tools {

std::string read_file(const std::string& field, const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw ConfigError(field, path + " is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError(field, fmt::format("cannot read {}: {}", path, std::generic_category().message(errno)));
  }
  std::string text;
  std::array<char, 1U << 16U> block{};
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLargestInput) throw ConfigError(field, path + " is larger than 1 GiB");
  }
  if (file.bad()) throw ConfigError(field, "cannot read " + path);
  return text;
}

}  // namespace sluice::tools
