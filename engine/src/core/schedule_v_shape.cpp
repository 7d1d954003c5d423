#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "require_placement.hpp"
#include "sluice/error.hpp"
#include "sluice/schedule.hpp"

namespace sluice {
namespace {

/// The chunk of a stage on the way down the V, or on the way back up.
enum class Way : std::uint8_t { Down, Up };

/// One stage's order, written pass by pass: each takes the chunk's next microbatch. Passes of
/// microbatches that the pipeline does not have are left out.
class VOrder {
 public:
  VOrder(const Pipeline& pipeline, StageId stage)
      : chunks_{pipeline.chunks_of(stage)[0], pipeline.chunks_of(stage)[1]},
        microbatches_(pipeline.microbatches()) {}

  void forward(Way way) { append(way, Pass::Forward); }
  /// With its weight gradients.
  void whole_backward(Way way) {
    append(way, Pass::Backward);
    ++next(way, Pass::WeightGrad);
  }
  void input_grad(Way way) {
    append(way, Pass::Backward);
    put_off_.push_back(way);
  }
  void weight_grad(Way way) { append(way, Pass::WeightGrad); }
  /// Of the input gradient that ran longest ago, if any has none yet.
  void oldest_weight_grad() {
    if (put_off_.empty()) return;
    append(put_off_.front(), Pass::WeightGrad);
    put_off_.pop_front();
  }

  /// How many the chunk has had so far, those left out included.
  [[nodiscard]] Microbatch count(Way way, Pass pass) const {
    return next_[static_cast<std::size_t>(way)][static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] std::vector<Task> take() { return std::move(order_); }

 private:
  Microbatch& next(Way way, Pass pass) {
    return next_[static_cast<std::size_t>(way)][static_cast<std::size_t>(pass)];
  }
  void append(Way way, Pass pass) {
    const Microbatch microbatch = next(way, pass)++;
    if (microbatch < microbatches_)
      order_.push_back({microbatch, chunks_[static_cast<std::size_t>(way)], pass});
  }

  std::array<Chunk, 2> chunks_;
  Microbatch microbatches_;
  std::array<std::array<Microbatch, kPasses>, 2> next_{};
  std::deque<Way> put_off_;
  std::vector<Task> order_;
};

void split_backward(VOrder& order, Way way) {
  order.input_grad(way);
  order.weight_grad(way);
}

/// Weight gradients fill what would be the bubbles of the cool-down.
void cool_down_zb_v(VOrder& order, std::uint32_t stage, std::uint32_t from_last) {
  for (std::uint32_t i = 0; i < stage; ++i) {
    order.input_grad(Way::Down);
    order.input_grad(Way::Up);
  }
  for (std::uint32_t i = 0; i < from_last; ++i) split_backward(order, Way::Down);
  for (const Way way : {Way::Up, Way::Down}) {
    while (order.count(way, Pass::WeightGrad) < order.count(way, Pass::Backward)) order.weight_grad(way);
  }
}

std::vector<Task> zb_v_order(const Pipeline& pipeline, StageId stage) {
  VOrder order(pipeline, stage);
  const std::uint32_t from_last = pipeline.stages() - stage;
  // The pattern needs this many microbatches; those that do not exist are left out as it is written.
  const Microbatch total = std::max(pipeline.microbatches(), 2 * pipeline.stages() - 1);
  for (std::uint32_t i = 0; i < 2 * from_last - 1; ++i) order.forward(Way::Down);
  for (std::uint32_t i = 0; i < stage; ++i) {
    order.forward(Way::Up);
    order.forward(Way::Down);
  }
  for (std::uint32_t i = 0; i < from_last; ++i) {
    order.forward(Way::Up);
    split_backward(order, Way::Up);
  }
  while (order.count(Way::Up, Pass::Forward) < total) {
    if (order.count(Way::Down, Pass::Forward) < total) order.forward(Way::Down);
    split_backward(order, Way::Down);
    order.forward(Way::Up);
    split_backward(order, Way::Up);
  }
  cool_down_zb_v(order, stage, from_last);
  return order.take();
}

/// The last `stage + 1` backwards of both chunks, of which the later half leave their weight gradients
/// for the end, and what is left of the chunk on the way down.
void cool_down_dualpipe_v(VOrder& order, std::uint32_t stage, std::uint32_t after) {
  const std::uint32_t pairs = stage + 1;
  const auto backward = [&order](Way way, bool split) {
    if (split) {
      order.input_grad(way);
    } else {
      order.whole_backward(way);
    }
  };
  // On odd stages the splitting starts with a pair, on even ones in the middle of it.
  for (std::uint32_t i = 0; i < pairs; ++i) {
    backward(Way::Up, i > pairs / 2 || (i == pairs / 2 && stage % 2 == 1));
    backward(Way::Down, i >= pairs / 2);
  }
  for (std::uint32_t i = 0; i < after; ++i) {
    order.oldest_weight_grad();
    order.input_grad(Way::Down);
  }
  for (std::uint32_t i = 0; i < pairs; ++i) order.oldest_weight_grad();
}

std::vector<Task> dualpipe_v_order(const Pipeline& pipeline, StageId stage) {
  VOrder order(pipeline, stage);
  const std::uint32_t after = pipeline.stages() - stage - 1U;
  for (std::uint32_t i = 0; i < 2 * after; ++i) order.forward(Way::Down);
  for (std::uint32_t i = 0; i < stage + 1U; ++i) {
    order.forward(Way::Down);
    order.forward(Way::Up);
  }
  for (std::uint32_t i = 0; i < after; ++i) {
    order.input_grad(Way::Up);
    order.oldest_weight_grad();
    order.forward(Way::Up);
  }
  const std::uint32_t steady = pipeline.microbatches() - 2 * pipeline.stages() + stage + 1;
  for (std::uint32_t i = 0; i < steady + after; ++i) {
    if (i < steady) order.forward(Way::Down);
    order.whole_backward(Way::Up);
    order.forward(Way::Up);
    order.whole_backward(Way::Down);
  }
  cool_down_dualpipe_v(order, stage, after);
  return order.take();
}

}  // namespace

Schedule Schedule::zb_v(const Pipeline& pipeline) {
  require_placement(pipeline, Placement::V, "zb-v");
  std::vector<std::vector<Task>> orders;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage) orders.push_back(zb_v_order(pipeline, stage));
  return {"zb-v", std::move(orders)};
}

Schedule Schedule::dualpipe_v(const Pipeline& pipeline) {
  require_placement(pipeline, Placement::V, "dualpipe-v");
  if (pipeline.microbatches() < 2 * pipeline.stages()) {
    throw ConfigError("schedule", "dualpipe-v needs at least two microbatches for each of the " +
                                      std::to_string(pipeline.stages()) + " stages, not " +
                                      std::to_string(pipeline.microbatches()));
  }
  std::vector<std::vector<Task>> orders;
  for (StageId stage = 0; stage < pipeline.stages(); ++stage)
    orders.push_back(dualpipe_v_order(pipeline, stage));
  return {"dualpipe-v", std::move(orders)};
}

}  // namespace sluice
