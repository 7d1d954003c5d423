#include "report/capture_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <vector>

#include "option/limits.hpp"
#include "report/report_table.hpp"
#include "sluice/graphs/explain.hpp"

namespace sluice::tools {
namespace {

using Group = std::vector<const graphs::CapturedTask*>;

double microseconds(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

Duration mean(const Group& group, Duration graphs::CapturedTask::*time) {
  Duration sum{0};
  for (const graphs::CapturedTask* task : group) sum += task->*time;
  return sum / static_cast<std::int64_t>(group.size());
}

/// The largest that a graph of the group has.
template <typename Value>
auto most(const Group& group, const Value& value) {
  auto largest = value(*group.front());
  for (const graphs::CapturedTask* task : group) largest = std::max(largest, value(*task));
  return largest;
}

std::string shapes_text(const std::vector<TensorShape>& shapes) {
  std::string text;
  for (const TensorShape& shape : shapes) text += (text.empty() ? "" : " ") + graphs::to_string(shape);
  return text.empty() ? "-" : text;
}

std::string replay_text(const Group& group) {
  using Task = graphs::CapturedTask;
  const auto all = [&](auto holds) { return std::ranges::all_of(group, holds); };
  if (!all([](const Task* task) { return task->verified; })) return "not verified";
  const double error = most(group, [](const Task& task) { return task.verification.max_abs_error; });
  const std::uint64_t bytes = most(group, [](const Task& task) { return task.verification.bytes_different; });
  if (error == 0 && bytes == 0) return "equal";
  std::string text = fmt::format("differs by up to {:g}", error);
  if (bytes > 0) text += fmt::format(" and in {} bytes", bytes);
  if (!all([](const Task* task) { return task->verification.deterministic; }))
    text += "; kernels are not deterministic";
  return text;
}

std::vector<std::string> row_of(const std::string& chunk, const Group& group) {
  using Task = graphs::CapturedTask;
  const graphs::CaptureKey& key = group.front()->key;
  const graphs::NodeCounts& nodes = group.front()->nodes;
  return {chunk,
          fmt::format("{}{}", letter(key.pass), key.whole ? " (whole)" : ""),
          shapes_text(group.front()->shapes),
          fmt::format("{}", group.size()),
          fmt::format("{}", most(group, [](const Task& task) { return task.nodes.total(); })),
          fmt::format("{}/{}/{}/{}", nodes.kernels, nodes.copies, nodes.fills,
                      nodes.total() - nodes.kernels - nodes.copies - nodes.fills),
          bytes_text(most(group, [](const Task& task) { return task.graph_bytes; })),
          fmt::format("{:.0f}", microseconds(mean(group, &Task::capture))),
          fmt::format("{:.0f}", microseconds(mean(group, &Task::instantiate))),
          replay_text(group)};
}

}  // namespace

std::string capture_table(const graphs::Manifest& manifest, std::span<const graphs::CaptureTarget> targets) {
  std::map<std::tuple<Chunk, Pass, bool>, Group> groups;
  for (const graphs::CapturedTask& task : manifest.tasks)
    groups[{task.key.chunk, task.key.pass, task.key.whole}].push_back(&task);
  ReportTable table;
  table.title = fmt::format(
      "{} graphs of {} on {}", manifest.tasks.size(),
      targets.size() == 1 ? targets.front().name : fmt::format("{} chunks", targets.size()), manifest.device);
  table.columns = {
      "chunk",        "pass",         "shapes",           "graphs", "nodes", "kernels/copies/fills/others",
      "graph memory", "capture (us)", "instantiate (us)", "replay"};
  for (const auto& [key, group] : groups) {
    const Chunk chunk = std::get<0>(key);
    table.rows.push_back(
        row_of(targets.size() == 1 ? "0" : fmt::format("{} {}", chunk, targets[chunk].name), group));
  }
  table.notes.push_back(fmt::format("memory: {} slots of {}, {} of temporaries, {} in all", manifest.slots,
                                    bytes_text(manifest.memory.saved_per_slot),
                                    bytes_text(manifest.memory.temporary),
                                    bytes_text(manifest.memory.total)));
  if (const std::string uncounted = graphs::uncounted_memory(manifest); !uncounted.empty())
    table.notes.back() += "; " + uncounted;
  return table.markdown();
}

}  // namespace sluice::tools
