#include "sluice/hint.hpp"

#include <algorithm>
#include <utility>

#include "sluice/error.hpp"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 6> kHintNames = {"bf",         "fb",  "b-priority",
                                                        "f-priority", "bfw", "pace"};
constexpr std::uint32_t kUnranked = ~std::uint32_t{0};

/// Lower chunk first for forwards, higher chunk first otherwise; ties go to the lower microbatch.
std::vector<Task> ranked(const Pipeline& pipeline, StageId stage, Pass pass) {
  const auto owned = pipeline.chunks_of(stage);
  std::vector<Chunk> chunks(owned.begin(), owned.end());
  if (pass != Pass::Forward) std::reverse(chunks.begin(), chunks.end());
  std::vector<Task> tasks;
  tasks.reserve(chunks.size() * pipeline.microbatches());
  for (const Chunk chunk : chunks) {
    for (Microbatch m = 0; m < pipeline.microbatches(); ++m) tasks.push_back({m, chunk, pass});
  }
  return tasks;
}

}  // namespace

Hint::Hint(std::string name, const Pipeline& pipeline, StageId stage, RoundRule rule,
           const std::array<std::vector<Task>, kClasses>& classes)
    : name_(std::move(name)), rule_(rule) {
  const StageTasks tasks(pipeline, stage);
  auto tables = std::make_shared<Tables>();
  tables->tasks = classes;
  std::array<std::uint32_t, kPasses> class_of{kUnranked, kUnranked, kUnranked};
  for (auto& ranks : tables->ranks) ranks.assign(tasks.size(), kUnranked);
  for (std::uint32_t cls = 0; cls < kClasses; ++cls) {
    for (std::uint32_t rank = 0; rank < classes[cls].size(); ++rank) {
      const Task& task = classes[cls][rank];
      if (!tasks.contains(task))
        throw ConfigError("hint", to_string(task) + " is not a task of stage " + std::to_string(stage));
      const auto pass = static_cast<std::size_t>(task.pass);
      std::uint32_t& at = tables->ranks[pass][tasks.index(task.chunk, task.microbatch)];
      if (at != kUnranked) throw ConfigError("hint", to_string(task) + " is ranked twice");
      if (class_of[pass] != kUnranked && class_of[pass] != cls) {
        throw ConfigError("hint", std::string("pass ") + letter(task.pass) + " is ranked in two classes");
      }
      at = rank;
      class_of[pass] = cls;
    }
  }
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    const auto& ranks = tables->ranks[pass];
    const auto missing = std::find(ranks.begin(), ranks.end(), kUnranked);
    if (missing == ranks.end()) continue;
    const auto index = static_cast<std::uint32_t>(missing - ranks.begin());
    throw ConfigError("hint", to_string(tasks.task(static_cast<Pass>(pass), index)) + " is not ranked");
  }
  class_of_ = class_of;
  tables_ = std::move(tables);
  plain_ = tasks.chunks() == 1 && ranks_by_microbatch();
  plain_chunk_ = tasks.chunk_at(0);
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad})
    plain_pass_[class_of_[static_cast<std::size_t>(pass)]] = pass;
}

bool Hint::ranks_by_microbatch() const noexcept {
  return std::all_of(tables_->tasks.begin(), tables_->tasks.end(), [](const std::vector<Task>& tasks) {
    for (std::uint32_t rank = 0; rank < tasks.size(); ++rank) {
      if (tasks[rank].microbatch != rank || tasks[rank].pass != tasks.front().pass) return false;
    }
    return true;
  });
}

std::span<const std::string_view> Hint::names() noexcept { return kHintNames; }

Hint Hint::named(std::string_view name, const Pipeline& pipeline, StageId stage) {
  if (std::find(kHintNames.begin(), kHintNames.end(), name) == kHintNames.end()) {
    std::string known;
    for (const std::string_view each : kHintNames) known.append(known.empty() ? "" : ", ").append(each);
    throw ConfigError("hint", "'" + std::string(name) + "' is not one of " + known);
  }
  if (name == "pace") return pace(pipeline, stage);
  std::vector<Task> forward = ranked(pipeline, stage, Pass::Forward);
  std::vector<Task> backward = ranked(pipeline, stage, Pass::Backward);
  std::vector<Task> weight_grad = ranked(pipeline, stage, Pass::WeightGrad);
  const RoundRule rule = name.ends_with("-priority") ? RoundRule::Priority : RoundRule::Rounds;
  if (name == "fb" || name == "f-priority") std::swap(forward, backward);
  return {std::string(name),
          pipeline,
          stage,
          rule,
          {std::move(backward), std::move(forward), std::move(weight_grad)}};
}

Hint Hint::from_schedule(const Schedule& schedule, const Pipeline& pipeline, StageId stage) {
  const auto order = schedule.order(stage);
  std::vector<Task> tasks(order.begin(), order.end());
  std::vector<Task> listed = tasks;
  std::sort(listed.begin(), listed.end());
  for (const Task& task : order) {
    const Task tail{task.microbatch, task.chunk, Pass::WeightGrad};
    if (task.pass == Pass::Backward && !std::binary_search(listed.begin(), listed.end(), tail))
      tasks.push_back(tail);
  }
  return {schedule.name(), pipeline, stage, RoundRule::Priority, {std::move(tasks), {}, {}}};
}

}  // namespace sluice
