#include "sluice/sim/lower_bound.hpp"

#include <algorithm>
#include <vector>

namespace sluice::sim {
namespace {

struct ChunkTimes {
  Duration forward{0};
  /// The least until the input gradient can be there.
  Duration input_grad{0};
  /// The least the rest of the backward takes after that.
  Duration weight_grad{0};
};

struct StageSums {
  Duration earliest = Duration::max();
  Duration whole{0};
  Duration input_grads{0};
  Duration shortest_tail = Duration::max();
};

/// Follows one microbatch after the other through the pipeline.
class Bound {
 public:
  Bound(const Pipeline& pipeline, const Realized& realized)
      : pipeline_(pipeline),
        realized_(realized),
        times_(pipeline.chunks()),
        arrived_(pipeline.chunks()),
        returned_(pipeline.chunks()),
        tails_(pipeline.chunks()),
        stages_(pipeline.stages()) {}

  void add(Microbatch microbatch) {
    for (std::uint32_t chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      times_[chunk] = times_of(static_cast<Chunk>(chunk), microbatch);
    }
    go_forward(microbatch);
    go_back(microbatch);
    find_tails(microbatch);
    for (std::uint32_t chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      const ChunkTimes& times = times_[chunk];
      StageSums& stage = stages_[pipeline_.stage_of(static_cast<Chunk>(chunk))];
      stage.earliest = std::min(stage.earliest, arrived_[chunk]);
      stage.input_grads += times.forward + times.input_grad;
      stage.whole += times.forward + times.input_grad + times.weight_grad;
      stage.shortest_tail = std::min(stage.shortest_tail, tails_[chunk]);
    }
  }

  [[nodiscard]] Duration value() const {
    Duration bound = longest_path_;
    for (const StageSums& stage : stages_) {
      bound = std::max(bound, stage.earliest + stage.whole);
      bound = std::max(bound, stage.earliest + stage.input_grads + stage.shortest_tail);
    }
    return bound;
  }

 private:
  [[nodiscard]] ChunkTimes times_of(Chunk chunk, Microbatch microbatch) const {
    const auto& time = realized_.task_time;
    const Duration whole = time({microbatch, chunk, Pass::Backward}, true);
    ChunkTimes times{time({microbatch, chunk, Pass::Forward}, false), whole, Duration{0}};
    if (!pipeline_.splittable(chunk)) return times;
    const Duration part = time({microbatch, chunk, Pass::Backward}, false);
    const Duration split = part + time({microbatch, chunk, Pass::WeightGrad}, false);
    times.input_grad = std::min(part, whole);
    times.weight_grad = std::min(split, whole) - times.input_grad;
    return times;
  }

  [[nodiscard]] Duration delay(EdgeId edge, Direction direction, Microbatch microbatch) const {
    const Edge& ends = pipeline_.edges()[edge];
    if (pipeline_.stage_of(ends.from) == pipeline_.stage_of(ends.to)) return realized_.notice;
    return realized_.notice + realized_.message_delay({realized_.iteration, microbatch, edge, direction});
  }

  void go_forward(Microbatch microbatch) {
    for (std::uint32_t chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      arrived_[chunk] = Duration{0};
      for (const EdgeId edge : pipeline_.in_edges(static_cast<Chunk>(chunk))) {
        const Chunk from = pipeline_.edges()[edge].from;
        arrived_[chunk] = std::max(arrived_[chunk], arrived_[from] + times_[from].forward +
                                                        delay(edge, Direction::Activation, microbatch));
      }
    }
  }

  void go_back(Microbatch microbatch) {
    for (std::uint32_t chunk = pipeline_.chunks(); chunk-- > 0;) {
      Duration ready = arrived_[chunk] + times_[chunk].forward;
      for (const EdgeId edge : pipeline_.out_edges(static_cast<Chunk>(chunk))) {
        const Chunk to = pipeline_.edges()[edge].to;
        ready = std::max(ready, returned_[to] + delay(edge, Direction::Gradient, microbatch));
      }
      returned_[chunk] = ready + times_[chunk].input_grad;
      longest_path_ = std::max(longest_path_, returned_[chunk] + times_[chunk].weight_grad);
    }
  }

  /// From the end of the chunk's input gradient to the end of what must follow it.
  void find_tails(Microbatch microbatch) {
    for (std::uint32_t chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      tails_[chunk] = times_[chunk].weight_grad;
      for (const EdgeId edge : pipeline_.in_edges(static_cast<Chunk>(chunk))) {
        const Chunk from = pipeline_.edges()[edge].from;
        tails_[chunk] = std::max(tails_[chunk], delay(edge, Direction::Gradient, microbatch) +
                                                    times_[from].input_grad + tails_[from]);
      }
    }
  }

  const Pipeline& pipeline_;
  const Realized& realized_;
  std::vector<ChunkTimes> times_;
  /// Of the microbatch being followed: when its forward can start at each chunk, and its input gradient end.
  std::vector<Duration> arrived_;
  std::vector<Duration> returned_;
  std::vector<Duration> tails_;
  std::vector<StageSums> stages_;
  Duration longest_path_{0};
};

}  // namespace

Duration lower_bound(const Pipeline& pipeline, const Realized& realized) {
  Bound bound(pipeline, realized);
  for (Microbatch microbatch = 0; microbatch < pipeline.microbatches(); ++microbatch) bound.add(microbatch);
  return bound.value();
}

}  // namespace sluice::sim
