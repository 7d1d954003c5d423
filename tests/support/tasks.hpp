#pragma once

#include <ostream>
#include <vector>

#include "sluice/task.hpp"

namespace sluice {

/// GoogleTest prints tasks as error messages do.
inline void PrintTo(const Task& task, std::ostream* out) { *out << to_string(task); }

}  // namespace sluice

namespace sluice::test {

using Tasks = std::vector<Task>;

[[nodiscard]] constexpr Task forward(Microbatch microbatch, Chunk chunk = 0) {
  return {microbatch, chunk, Pass::Forward};
}
[[nodiscard]] constexpr Task backward(Microbatch microbatch, Chunk chunk = 0) {
  return {microbatch, chunk, Pass::Backward};
}
[[nodiscard]] constexpr Task weight_grad(Microbatch microbatch, Chunk chunk = 0) {
  return {microbatch, chunk, Pass::WeightGrad};
}

}  // namespace sluice::test
