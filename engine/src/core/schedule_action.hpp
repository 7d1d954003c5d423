#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/task.hpp"

namespace sluice {

/// An action of PyTorch's pipelining notation that computes.
enum class ActionType : char { Forward = 'F', WholeBackward = 'B', InputGrad = 'I', WeightGrad = 'W' };

struct Action {
  ActionType type = ActionType::Forward;
  Chunk chunk = 0;
  Microbatch microbatch = 0;

  [[nodiscard]] Task task() const noexcept;
};

/// `2I0`
[[nodiscard]] std::string to_string(const Action& action);

/// Appends the actions of one cell: none for a bubble or communication, several if they overlap.
/// @return why the cell is none of these; empty if it is
[[nodiscard]] std::string parse_cell(std::string_view cell, std::vector<Action>& actions);

/// Text from a file, for a message: one short line of ASCII.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace sluice
