#include "sluice/sim/measurements.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sluice/host/draws.hpp"

namespace sluice::sim {
namespace {

constexpr double kKept = 0.9;
constexpr std::size_t kNewest = 128;
constexpr std::uint64_t kStream = 0x6d656173;

Duration rounded(double ns) { return Duration(std::llround(ns)); }

double relative(double now, double then, double scale) {
  return scale > 0 ? std::abs(now - then) / scale : 0.0;
}

}  // namespace

void Measurements::Average::add(Duration value) noexcept {
  const auto ns = static_cast<double>(value.count());
  ns_ = seen_ ? kKept * ns_ + (1 - kKept) * ns : ns;
  seen_ = true;
}

Measurements::Measurements(const Pipeline& pipeline)
    : tasks_(pipeline.chunks()), messages_(2 * pipeline.edges().size()) {}

void Measurements::add(std::span<Recorder* const> recorders) {
  std::map<MessageId, Time> sent;
  std::map<std::pair<std::uint64_t, Task>, Time> ended;
  for (const Recorder* recorder : recorders) {
    for (std::size_t i = 0; i < recorder->size(); ++i) {
      const Event& event = (*recorder)[i];
      if (event.kind == EventKind::Sent) sent.emplace(event.message(), event.at);
    }
  }
  for (const Recorder* recorder : recorders) {
    for (std::size_t i = 0; i < recorder->size(); ++i) {
      const Event& event = (*recorder)[i];
      if (event.kind == EventKind::Offered) {
        if (const auto at = sent.find(event.message()); at != sent.end())
          add_message(at->first, event.at - at->second);
      }
      if (event.kind == EventKind::Ran) {
        const Task task = event.task();
        if (!event.whole()) {
          tasks_[task.chunk][static_cast<std::size_t>(task.pass)].add(event.at - event.started());
        }
        ended[{event.iteration, task}] = event.at;
      }
      if (event.kind == EventKind::Noticed) {
        if (const auto at = ended.find({event.iteration, event.task()}); at != ended.end())
          notice_.add(event.at - at->second);
      }
    }
  }
}

void Measurements::add_message(const MessageId& id, Duration took) {
  Messages& messages = messages_[id.edge * 2U + static_cast<std::size_t>(id.direction)];
  messages.average.add(took);
  if (messages.newest.size() < kNewest) {
    messages.newest.push_back(took);
  } else {
    messages.newest[messages.next++ % kNewest] = took;
  }
}

bool Measurements::complete() const noexcept {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& passes) {
    return std::all_of(passes.begin(), passes.end(), [](const Average& average) { return average.seen(); });
  });
}

Duration Measurements::task(Chunk chunk, Pass pass) const noexcept {
  return rounded(tasks_[chunk][static_cast<std::size_t>(pass)].ns());
}

Duration Measurements::message(EdgeId edge, Direction direction) const noexcept {
  return rounded(messages(edge, direction).average.ns());
}

Duration Measurements::message(EdgeId edge, Direction direction, std::uint64_t draw) const noexcept {
  const Messages& all = messages(edge, direction);
  if (all.newest.empty()) return Duration{0};
  const std::uint64_t bits = host::draws::bits({kStream, edge, static_cast<std::uint64_t>(direction), draw});
  return all.newest[bits % all.newest.size()];
}

Duration Measurements::notice() const noexcept { return rounded(notice_.ns()); }

double Measurements::drift_since(const Measurements& earlier) const noexcept {
  // Everything is held against the time of an average task: a message that grows from 1 to 2 us matters to
  // nobody.
  double scale = 0;
  for (const auto& passes : tasks_) {
    for (const Average& average : passes) scale += average.ns();
  }
  scale /= static_cast<double>(tasks_.size() * kPasses);
  double drift = 0;
  for (std::size_t chunk = 0; chunk < tasks_.size(); ++chunk) {
    for (std::size_t pass = 0; pass < kPasses; ++pass)
      drift = std::max(drift, relative(tasks_[chunk][pass].ns(), earlier.tasks_[chunk][pass].ns(), scale));
  }
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    drift = std::max(drift, relative(messages_[i].average.ns(), earlier.messages_[i].average.ns(), scale));
  }
  return drift;
}

}  // namespace sluice::sim
