#pragma once

#include <cstring>
#include <memory>
#include <type_traits>

#include "meeting.hpp"

namespace fakenccl {

/// What the ranks tell each other in calls that all of them make, round by round. Nobody waits here: a rank
/// looks whether the others have written theirs.
class Notes {
 public:
  Notes(std::shared_ptr<Meeting> meeting, int rank, int ranks)
      : meeting_(std::move(meeting)), rank_(rank), ranks_(ranks) {}

  /// Begins a round. The one before must be over.
  template <typename Note>
  void write(const Note& note) {
    static_assert(std::is_trivially_copyable_v<Note> && sizeof(Note) <= kNoteBytes);
    ++round_;
    RankBoard& mine = meeting_->board().rank[static_cast<std::size_t>(rank_)];
    std::memcpy(mine.notes[round_ % 2].data(), &note, sizeof note);
    mine.rounds.store(round_);
    meeting_->board().bell.ring();
  }

  /// The round is over: every rank has written.
  [[nodiscard]] bool complete() const {
    for (int i = 0; i < ranks_; ++i) {
      if (meeting_->board().rank[static_cast<std::size_t>(i)].rounds.load() < round_) return false;
    }
    return true;
  }

  /// Precondition: `complete()`.
  template <typename Note>
  [[nodiscard]] Note of(int rank) const {
    Note note;
    const RankBoard& board = meeting_->board().rank[static_cast<std::size_t>(rank)];
    std::memcpy(static_cast<void*>(&note), board.notes[round_ % 2].data(), sizeof note);
    return note;
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  int ranks_;
  std::uint64_t round_ = 0;
};

}  // namespace fakenccl
