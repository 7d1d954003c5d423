#include "sluice/adapt/measurements.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sluice/host/draws.hpp"

namespace sluice::adapt {
namespace {

constexpr double kKept = 0.9;
constexpr std::size_t kNewest = 128;
constexpr std::uint64_t kTaskStream = 0x6d74736b;
constexpr std::uint64_t kMessageStream = 0x6d6d7367;

Duration rounded(double ns) { return Duration(std::llround(ns)); }

double relative(double now, double then, double scale) {
  return scale > 0 ? std::abs(now - then) / scale : 0.0;
}

}  // namespace

void Measurements::Average::add(Duration value) {
  const auto ns = static_cast<double>(value.count());
  ns_ = seen() ? kKept * ns_ + (1 - kKept) * ns : ns;
  if (newest_.size() < kNewest) {
    newest_.push_back(value);
  } else {
    newest_[next_++ % kNewest] = value;
  }
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
          messages_[place(at->first.edge, at->first.direction)].add(event.at - at->second);
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

bool Measurements::complete() const noexcept {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& passes) {
    return std::all_of(passes.begin(), passes.end(), [](const Average& average) { return average.seen(); });
  });
}

Duration Measurements::task(Chunk chunk, Pass pass) const noexcept {
  return rounded(tasks_[chunk][static_cast<std::size_t>(pass)].ns());
}

Duration Measurements::task(Chunk chunk, Pass pass, std::uint64_t draw) const noexcept {
  const auto number = static_cast<std::uint64_t>(pass);
  return tasks_[chunk][number].sample(host::draws::bits({kTaskStream, chunk, number, draw}));
}

Duration Measurements::message(EdgeId edge, Direction direction) const noexcept {
  return rounded(messages_[place(edge, direction)].ns());
}

Duration Measurements::message(EdgeId edge, Direction direction, std::uint64_t draw) const noexcept {
  const std::size_t at = place(edge, direction);
  return messages_[at].sample(host::draws::bits({kMessageStream, at, draw}));
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
    drift = std::max(drift, relative(messages_[i].ns(), earlier.messages_[i].ns(), scale));
  }
  return drift;
}

}  // namespace sluice::adapt
