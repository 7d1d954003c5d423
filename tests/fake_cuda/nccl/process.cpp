#include "process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

namespace fakenccl {

bool process_lives(int process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 256> text{};
  const ssize_t bytes = read(file, text.data(), text.size());
  close(file);
  if (bytes <= 0) return false;
  // The state follows the name, which ends with the last parenthesis.
  const std::string_view line(text.data(), static_cast<std::size_t>(bytes));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= line.size()) return true;
  const char state = line[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace fakenccl
