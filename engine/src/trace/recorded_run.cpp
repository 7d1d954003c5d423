#include "sluice/trace/recorded_run.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

/// Everything one iteration of the run must hold, looked for in what it does hold.
class Completeness {
 public:
  explicit Completeness(const RecordedRun& run) : run_(run) {
    for (const RecordedTask& each : run.tasks) tasks_.emplace(each.iteration, each.task);
    for (const RecordedTask& each : run.tasks) {
      if (each.whole) wholes_.emplace(each.iteration, each.task);
    }
    for (const RecordedMessage& each : run.messages) messages_.insert(each.id);
  }

  void check(const Iteration& iteration) const {
    const bool training = iteration.kind == IterationKind::Training;
    for (std::uint32_t chunk = 0; chunk < run_.pipeline.chunks(); ++chunk) {
      for (Microbatch m = 0; m < run_.pipeline.microbatches(); ++m) {
        require(iteration, {m, static_cast<Chunk>(chunk), Pass::Forward});
        if (!training) continue;
        const Task backward{m, static_cast<Chunk>(chunk), Pass::Backward};
        require(iteration, backward);
        if (!wholes_.contains({iteration.index, backward}))
          require(iteration, {m, static_cast<Chunk>(chunk), Pass::WeightGrad});
      }
    }
    for (std::size_t edge = 0; edge < run_.pipeline.edges().size(); ++edge) {
      for (Microbatch m = 0; m < run_.pipeline.microbatches(); ++m) {
        require(iteration, m, edge, Direction::Activation);
        if (training) require(iteration, m, edge, Direction::Gradient);
      }
    }
  }

 private:
  void require(const Iteration& iteration, const Task& task) const {
    if (tasks_.contains({iteration.index, task})) return;
    throw ConfigError("tasks",
                      to_string(task) + " of iteration " + std::to_string(iteration.index) + " is missing");
  }

  void require(const Iteration& iteration, Microbatch microbatch, std::size_t edge,
               Direction direction) const {
    const MessageId id{iteration.index, microbatch, static_cast<EdgeId>(edge), direction};
    if (!messages_.contains(id)) throw ConfigError("messages", to_string(id) + " is missing");
  }

  const RecordedRun& run_;
  std::set<std::pair<std::uint64_t, Task>> tasks_;
  std::set<std::pair<std::uint64_t, Task>> wholes_;
  std::set<MessageId> messages_;
};

}  // namespace

StageId sender(const Pipeline& pipeline, const MessageId& id) {
  const Edge& edge = pipeline.edges()[id.edge];
  return pipeline.stage_of(id.direction == Direction::Activation ? edge.from : edge.to);
}

StageId receiver(const Pipeline& pipeline, const MessageId& id) {
  const Edge& edge = pipeline.edges()[id.edge];
  return pipeline.stage_of(id.direction == Direction::Activation ? edge.to : edge.from);
}

std::string edge_name(const Pipeline& pipeline, EdgeId edge, Direction direction) {
  const Edge& ends = pipeline.edges()[edge];
  const std::string from = std::to_string(ends.from);
  const std::string to = std::to_string(ends.to);
  return direction == Direction::Activation ? "activations " + from + " -> " + to
                                            : "gradients " + to + " -> " + from;
}

void check_complete(const RecordedRun& run) {
  if (run.iterations.empty()) throw ConfigError("iterations", "there are none");
  const Completeness completeness(run);
  for (const RecordedIteration& each : run.iterations) completeness.check(each.iteration);
}

const RecordedRun& find_run(const Recording& recording, std::string_view method) {
  std::string known;
  for (const RecordedRun& run : recording.runs) {
    if (method.empty() || run.method == method) return run;
    known += (known.empty() ? "" : ", ") + run.method;
  }
  throw ConfigError("method", "'" + std::string(method) + "' is not one of the recorded: " + known);
}

}  // namespace sluice::trace
