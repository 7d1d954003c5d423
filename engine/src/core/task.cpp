#include "sluice/task.hpp"

namespace sluice {

std::string to_string(const Task& task) {
  return std::string(1, letter(task.pass)) + "(chunk " + std::to_string(task.chunk) + ", microbatch " +
         std::to_string(task.microbatch) + ")";
}

}  // namespace sluice
