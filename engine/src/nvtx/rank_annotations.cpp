#include "sluice/nvtx/rank_annotations.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "handle.hpp"
#include "sluice/nvtx/payload.hpp"
#include "sluice/stage_tasks.hpp"

namespace sluice::nvtx {
namespace {

/// Those of the timelines that `sluice` draws: forward, backward without and with its weight gradients.
constexpr std::array<std::uint32_t, kPasses> kPassColors = {0xff4a86d8, 0xffeda53f, 0xff3a9e7c};
constexpr std::uint32_t kWholeColor = 0xffd9643a;
constexpr std::uint32_t kWaitColor = 0xffc0c4cc;
constexpr std::uint32_t kOtherColor = 0xff7a818c;

constexpr std::array kWaits = {WaitFor::Message, WaitFor::Admission, WaitFor::Device,
                               WaitFor::Order,   WaitFor::Agreement, WaitFor::Receiver};
constexpr std::size_t kDirections = 2;

Category category_of(Pass pass) {
  return static_cast<Category>(static_cast<std::uint32_t>(Category::Forward) +
                               static_cast<std::uint32_t>(pass));
}

class RankAnnotations final : public Observer {
 public:
  RankAnnotations(const Domain& domain, const Pipeline& pipeline, StageId stage, RankNames names);
  ~RankAnnotations() override = default;
  RankAnnotations(const RankAnnotations&) = delete;
  RankAnnotations& operator=(const RankAnnotations&) = delete;

  void began(const Iteration& iteration) noexcept override;
  void ended(const Iteration& iteration) noexcept override;
  void launching(const Decision& decision) noexcept override;
  void finished(const Done& done) noexcept override;
  void arrived(const Arrival& arrival) noexcept override;
  void waits(WaitFor what) noexcept override;
  void stopped() noexcept override;

 private:
  /// One more than the passes: a backward with its weight gradients has a name of its own.
  static constexpr std::size_t kKinds = kPasses + 1;

  [[nodiscard]] nvtxEventAttributes_t event(Category category, const std::string& text, std::uint32_t color);
  void name_tasks(const Pipeline& pipeline, StageId stage);
  void name_arrivals(const Pipeline& pipeline, StageId stage);

  [[nodiscard]] nvtxRangeId_t& range_of(const Task& task) noexcept {
    return ranges_[tasks_.index(task.chunk, task.microbatch) * kPasses + static_cast<std::size_t>(task.pass)];
  }
  void end_wait() noexcept;

  nvtxDomainHandle_t domain_;
  StageTasks tasks_;
  RankNames names_;
  bool thread_named_ = false;
  bool in_iteration_ = false;
  std::optional<WaitFor> waiting_;
  /// Open ranges by pair and pass; 0 for none.
  std::vector<nvtxRangeId_t> ranges_;
  /// By position of the chunk and kind.
  std::vector<std::array<nvtxEventAttributes_t, kKinds>> task_events_;
  /// By edge and direction; blank where the rank receives none.
  std::vector<std::array<nvtxEventAttributes_t, kDirections>> arrival_events_;
  std::array<nvtxEventAttributes_t, kPasses> decision_events_{};
  std::array<nvtxEventAttributes_t, kWaits.size()> wait_events_{};
  nvtxEventAttributes_t iteration_event_{};
};

RankAnnotations::RankAnnotations(const Domain& domain, const Pipeline& pipeline, StageId stage,
                                 RankNames names)
    : domain_(domain.handle().get()),
      tasks_(pipeline, stage),
      names_(std::move(names)),
      ranges_(std::size_t{tasks_.size()} * kPasses) {
  name_tasks(pipeline, stage);
  name_arrivals(pipeline, stage);
  for (const WaitFor what : kWaits) {
    wait_events_[static_cast<std::size_t>(what)] =
        event(Category::Wait, std::string("wait: ") + to_string(what), kWaitColor);
  }
  const std::string of = names_.method.empty() ? "" : " " + names_.method;
  iteration_event_ = event(Category::Iteration, "iteration" + of, kOtherColor);
}

nvtxEventAttributes_t RankAnnotations::event(Category category, const std::string& text,
                                             std::uint32_t color) {
  return event_of(category, nvtxDomainRegisterStringA(domain_, text.c_str()), color);
}

void RankAnnotations::name_tasks(const Pipeline& pipeline, StageId stage) {
  for (const Chunk chunk : pipeline.chunks_of(stage)) {
    const std::string where = " chunk " + std::to_string(chunk);
    auto& events = task_events_.emplace_back();
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
      const auto kind = static_cast<std::size_t>(pass);
      events[kind] = event(category_of(pass), letter(pass) + where, kPassColors[kind]);
    }
    events[kPasses] = event(Category::Backward, "B+W" + where, kWholeColor);
  }
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::WeightGrad}) {
    const auto kind = static_cast<std::size_t>(pass);
    decision_events_[kind] =
        event(Category::Decision, std::string("decide ") + letter(pass), kPassColors[kind]);
  }
}

void RankAnnotations::name_arrivals(const Pipeline& pipeline, StageId stage) {
  arrival_events_.resize(pipeline.edges().size());
  for (EdgeId edge = 0; edge < pipeline.edges().size(); ++edge) {
    const Edge& ends = pipeline.edges()[edge];
    const std::string where = " edge " + std::to_string(edge);
    auto& events = arrival_events_[edge];
    if (pipeline.stage_of(ends.to) == stage)
      events[0] = event(Category::Arrival, "activation" + where, kOtherColor);
    if (pipeline.stage_of(ends.from) == stage)
      events[1] = event(Category::Arrival, "gradient" + where, kOtherColor);
  }
}

void RankAnnotations::began(const Iteration& iteration) noexcept {
  if (!thread_named_) name_this_thread(names_.thread);
  thread_named_ = true;
  set_payload(iteration_event_, iteration.index);
  nvtxDomainRangePushEx(domain_, &iteration_event_);
  in_iteration_ = true;
}

void RankAnnotations::ended(const Iteration& /*iteration*/) noexcept {
  end_wait();
  if (in_iteration_) nvtxDomainRangePop(domain_);
  in_iteration_ = false;
}

void RankAnnotations::launching(const Decision& decision) noexcept {
  end_wait();
  nvtxEventAttributes_t& mark = decision_events_[static_cast<std::size_t>(decision.task.pass)];
  DecisionPayload others;
  for (std::size_t pass = 0; pass < kPasses; ++pass)
    others.runnable[pass] = DecisionPayload::clamped(decision.runnable[pass]);
  others.held_by_limit = DecisionPayload::clamped(decision.held_by_limit);
  set_payload(mark, others.packed());
  nvtxDomainMarkEx(domain_, &mark);

  const std::size_t kind = decision.whole ? kPasses : static_cast<std::size_t>(decision.task.pass);
  nvtxEventAttributes_t& range = task_events_[tasks_.position(decision.task.chunk)][kind];
  set_payload(
      range,
      Payload::of(decision.task.microbatch, decision.task.chunk, decision.slot, decision.iteration).packed());
  range_of(decision.task) = nvtxDomainRangeStartEx(domain_, &range);
}

void RankAnnotations::finished(const Done& done) noexcept {
  nvtxDomainRangeEnd(domain_, std::exchange(range_of(done.task), 0));
}

void RankAnnotations::arrived(const Arrival& arrival) noexcept {
  const MessageId& id = arrival.id;
  nvtxEventAttributes_t& mark = arrival_events_[id.edge][static_cast<std::size_t>(id.direction)];
  set_payload(mark, Payload::of(id.microbatch, id.edge, arrival.slot, id.iteration).packed());
  nvtxDomainMarkEx(domain_, &mark);
}

void RankAnnotations::waits(WaitFor what) noexcept {
  if (waiting_ == what) return;
  end_wait();
  nvtxDomainRangePushEx(domain_, &wait_events_[static_cast<std::size_t>(what)]);
  waiting_ = what;
}

void RankAnnotations::end_wait() noexcept {
  if (waiting_) nvtxDomainRangePop(domain_);
  waiting_.reset();
}

void RankAnnotations::stopped() noexcept {
  for (nvtxRangeId_t& range : ranges_) {
    if (range != 0) nvtxDomainRangeEnd(domain_, std::exchange(range, 0));
  }
  ended({});
}

}  // namespace

std::unique_ptr<Observer> annotate_rank(const Domain& domain, const Pipeline& pipeline, StageId stage,
                                        const RankNames& names) {
  return std::make_unique<RankAnnotations>(domain, pipeline, stage, names);
}

}  // namespace sluice::nvtx
