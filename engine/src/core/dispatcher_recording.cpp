#include "sluice/dispatcher.hpp"

namespace sluice {

/// One reading of the clock serves all that one progress() takes in.
Time Dispatcher::progress_time() {
  if (progress_time_ == kNever) progress_time_ = seams_.clock.now();
  return progress_time_;
}

void Dispatcher::note_task(EventKind kind, const Task& task, bool whole, std::int64_t value) {
  config_.recorder->record(Event::of(kind, progress_time(), iteration_.index, task, whole, value));
}

void Dispatcher::note_message(EventKind kind, const MessageId& id, std::int64_t value) {
  config_.recorder->record(Event::of(kind, progress_time(), id, value));
}

void Dispatcher::note_iteration(EventKind kind) {
  if (kind == EventKind::IterationBegin) progress_time_ = kNever;
  const auto detail = static_cast<std::uint8_t>(iteration_.kind);
  config_.recorder->record({progress_time(), 0, iteration_.index, 0, 0, kind, detail});
}

void Dispatcher::note_done(const Done& done) {
  const std::int64_t started = done.started.count();
  config_.recorder->record(
      Event::of(EventKind::Ran, done.ended, iteration_.index, done.task, done.whole, started));
  note_task(EventKind::Noticed, done.task, done.whole);
}

void Dispatcher::note_asked(PassMask allowed) {
  if (asked_) return;
  const std::optional<Task> candidate = arbiter_.candidate(allowed);
  if (!candidate) return;
  asked_ = true;
  note_task(EventKind::Asked, *candidate);
}

}  // namespace sluice
