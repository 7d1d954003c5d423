#include "sluice/schedule_csv.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedule_action.hpp"
#include "sluice/error.hpp"

namespace sluice {
namespace {

constexpr std::size_t kMaxRanks = 65535;
/// Pairs of chunk and microbatch that a file may be short of actions for and still be read, so that
/// validation can say which are missing.
constexpr std::size_t kMaxMissingPairs = 4096;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// A cell, counted from 1.
struct Cell {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

struct Placed {
  Action action;
  Cell cell;
};

[[noreturn]] void refuse(Cell cell, const std::string& reason) {
  throw ConfigError("schedule", "line " + std::to_string(cell.line) + " (rank " +
                                    std::to_string(cell.line - 1) + "), column " +
                                    std::to_string(cell.column) + ": " + reason);
}

/// Removes and returns the part before the separator, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

/// Without what an editor may have put before and after the rows.
std::string_view rows_of(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::vector<Placed> read_row(std::string_view row, std::uint32_t line) {
  std::vector<Placed> placed;
  std::vector<Action> actions;
  Cell cell{line, 0};
  while (!row.empty()) {
    ++cell.column;
    actions.clear();
    const std::string reason = parse_cell(take_until(row, ','), actions);
    if (!reason.empty()) refuse(cell, reason);
    for (const Action& action : actions) placed.push_back({action, cell});
  }
  return placed;
}

std::vector<std::vector<Placed>> read_rows(std::string_view text) {
  std::vector<std::vector<Placed>> rows;
  for (std::string_view rest = rows_of(text); !rest.empty();) {
    std::string_view row = take_until(rest, '\n');
    if (row.ends_with('\r')) row.remove_suffix(1);
    const auto line = static_cast<std::uint32_t>(rows.size() + 1);
    if (rows.size() == kMaxRanks) refuse({line, 1}, "more than " + std::to_string(kMaxRanks) + " ranks");
    rows.push_back(read_row(row, line));
    if (rows.back().empty()) refuse({line, 1}, "no action that computes");
  }
  if (rows.empty()) throw ConfigError("schedule", "the file holds no rank");
  return rows;
}

/// Refuses numbers so large that most of what they imply cannot be in the file.
/// @return number of microbatches
Microbatch check_size(const std::vector<std::vector<Placed>>& rows) {
  std::size_t actions = 0;
  const Placed* chunk = &rows[0][0];
  const Placed* microbatch = &rows[0][0];
  for (const auto& row : rows) {
    actions += row.size();
    for (const Placed& each : row) {
      if (each.action.chunk > chunk->action.chunk) chunk = &each;
      if (each.action.microbatch > microbatch->action.microbatch) microbatch = &each;
    }
  }
  const std::size_t chunks = chunk->action.chunk + std::size_t{1};
  const std::size_t microbatches = microbatch->action.microbatch + std::size_t{1};
  if (chunks * microbatches <= actions + kMaxMissingPairs) return static_cast<Microbatch>(microbatches);
  const Placed& largest = microbatches > chunks ? *microbatch : *chunk;
  refuse(largest.cell, to_string(largest.action) + " is one of " + std::to_string(chunks) + " stages and " +
                           std::to_string(microbatches) + " microbatches, but the file has only " +
                           std::to_string(actions) + " actions");
}

std::vector<StageId> placement_of(const std::vector<std::vector<Placed>>& rows) {
  std::vector<const Placed*> first;
  for (const auto& row : rows) {
    for (const Placed& each : row) {
      const Chunk chunk = each.action.chunk;
      if (chunk >= first.size()) first.resize(chunk + std::size_t{1}, nullptr);
      if (first[chunk] == nullptr) first[chunk] = &each;
      if (first[chunk]->cell.line == each.cell.line) continue;
      refuse(each.cell, to_string(each.action) + ": stage " + std::to_string(chunk) + " is on rank " +
                            std::to_string(first[chunk]->cell.line - 1) + " already, at column " +
                            std::to_string(first[chunk]->cell.column));
    }
  }
  std::vector<StageId> placement;
  for (const Placed* each : first) {
    if (each == nullptr)
      throw ConfigError("schedule", "stage " + std::to_string(placement.size()) + " is on no rank");
    placement.push_back(static_cast<StageId>(each->cell.line - 1));
  }
  return placement;
}

/// A backward is whole, or its weight gradient is an action of its own.
void check_splits(std::vector<Placed> row) {
  std::erase_if(row, [](const Placed& each) { return each.action.type == ActionType::Forward; });
  const auto pair = [](const Placed& each) { return std::tuple(each.action.chunk, each.action.microbatch); };
  std::stable_sort(row.begin(), row.end(),
                   [&](const Placed& a, const Placed& b) { return pair(a) < pair(b); });
  for (auto begin = row.begin(); begin != row.end();) {
    const auto end =
        std::find_if(begin, row.end(), [&](const Placed& each) { return pair(each) != pair(*begin); });
    const auto has = [&](ActionType type) {
      return std::any_of(begin, end, [type](const Placed& each) { return each.action.type == type; });
    };
    const std::string which =
        std::to_string(begin->action.chunk) + "W" + std::to_string(begin->action.microbatch);
    if (has(ActionType::WholeBackward) && (has(ActionType::InputGrad) || has(ActionType::WeightGrad)))
      refuse(begin->cell, to_string(begin->action) + ": the backward is whole and split");
    if (has(ActionType::InputGrad) && !has(ActionType::WeightGrad))
      refuse(begin->cell, to_string(begin->action) + " is without its " + which);
    if (has(ActionType::WeightGrad) && !has(ActionType::InputGrad))
      refuse(begin->cell, which + " is without its input gradient");
    begin = end;
  }
}

}  // namespace

Pipeline ScheduleFile::pipeline() const {
  std::vector<ChunkPlacement> placements;
  std::vector<Edge> edges;
  for (std::size_t chunk = 0; chunk < placement.size(); ++chunk) {
    placements.push_back({placement[chunk], true});
    if (chunk > 0) edges.push_back({static_cast<Chunk>(chunk - 1), static_cast<Chunk>(chunk)});
  }
  return {std::move(placements), std::move(edges), microbatches, false};
}

ScheduleFile parse_schedule_csv(std::string_view text, std::string name) {
  const std::vector<std::vector<Placed>> rows = read_rows(text);
  const Microbatch microbatches = check_size(rows);
  std::vector<StageId> placement = placement_of(rows);
  std::vector<std::vector<Task>> orders;
  std::vector<std::vector<std::uint32_t>> columns;
  for (const auto& row : rows) {
    check_splits(row);
    orders.emplace_back();
    columns.emplace_back();
    for (const Placed& each : row) {
      orders.back().push_back(each.action.task());
      columns.back().push_back(each.cell.column);
    }
  }
  return {Schedule(std::move(name), std::move(orders)), std::move(placement), microbatches,
          std::move(columns)};
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (std::size_t stage = 0; stage < schedule.stages(); ++stage) {
    const auto order = schedule.order(static_cast<StageId>(stage));
    std::vector<Task> split;
    std::copy_if(order.begin(), order.end(), std::back_inserter(split),
                 [](const Task& task) { return task.pass == Pass::WeightGrad; });
    std::sort(split.begin(), split.end());
    for (const Task& task : order) {
      const bool input_grad =
          task.pass == Pass::Backward &&
          std::binary_search(split.begin(), split.end(), Task{task.microbatch, task.chunk, Pass::WeightGrad});
      const auto type = input_grad ? ActionType::InputGrad : static_cast<ActionType>(letter(task.pass));
      if (&task != order.data()) text += ',';
      text += to_string(Action{type, task.chunk, task.microbatch});
    }
    text += '\n';
  }
  return text;
}

}  // namespace sluice
