#include <nccl.h>

#include <algorithm>
#include <vector>

#include "join.hpp"
#include "nccl_call.hpp"
#include "round.hpp"

namespace fakenccl {
namespace {

struct ColorNote {
  Round round = Round::Split;
  int color;
  int key;
};

struct IdNote {
  Round round = Round::SplitId;
  char id[kNoteBytes - sizeof(Round)];
};

/// One call of ncclCommSplit.
struct Split {
  std::shared_ptr<Communicator> parent;
  int color;
  int key;
  ncclComm_t* child;
  bool blocking;
  int stage = 0;
  /// The parent's ranks of this colour, in their new order.
  std::vector<int> members;
};

void choose_members(Split& split) {
  std::vector<std::pair<int, int>> chosen;
  for (int i = 0; i < split.parent->place().ranks; ++i) {
    const auto note = split.parent->notes().of<ColorNote>(i);
    if (note.color == split.color) chosen.emplace_back(note.key, i);
  }
  std::sort(chosen.begin(), chosen.end());
  for (const auto& [key, rank] : chosen) split.members.push_back(rank);
}

ncclResult_t write_id(const Split& split) {
  IdNote note{};
  note.round = Round::SplitId;
  if (split.color != NCCL_SPLIT_NOCOLOR && split.members.front() == split.parent->place().rank) {
    ncclUniqueId id;
    if (Meeting::create(id) == nullptr) return fail(ncclSystemError, "no shared memory");
    std::copy_n(id.internal, sizeof note.id, note.id);
  }
  split.parent->notes().write(note);
  return ncclSuccess;
}

ncclResult_t join_child(const Split& split) {
  if (split.color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const auto note = split.parent->notes().of<IdNote>(split.members.front());
  ncclUniqueId id{};
  std::copy_n(note.id, sizeof note.id, id.internal);
  const auto meeting = Meeting::find(id);
  if (meeting == nullptr) return fail(ncclRemoteError, "the first rank of the new communicator is gone");
  const auto& parent = split.parent->place();
  const auto own = std::find(split.members.begin(), split.members.end(), parent.rank);
  return begin_join(meeting,
                    {static_cast<int>(own - split.members.begin()), static_cast<int>(split.members.size()),
                     parent.device, split.blocking},
                    split.child);
}

std::optional<ncclResult_t> go_on(Split& split) {
  Notes& notes = split.parent->notes();
  if (split.stage == 0) {
    notes.write(ColorNote{Round::Split, split.color, split.key});
    split.stage = 1;
  }
  if (!notes.complete()) return std::nullopt;
  if (split.stage == 1) {
    if (const ncclResult_t differ = check_round(*split.parent, Round::Split)) return differ;
    choose_members(split);
    if (const ncclResult_t failed = write_id(split)) return failed;
    split.stage = 2;
    if (!notes.complete()) return std::nullopt;
  }
  return join_child(split);
}

ncclResult_t split(const std::shared_ptr<Communicator>& parent, int color, int key, ncclComm_t* child,
                   const ncclConfig_t* config) {
  if (const ncclResult_t refused = parent->ready()) return refused;
  if (child == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR)) {
    return fail(ncclInvalidArgument, "ncclCommSplit: no such colour, or no place for the communicator");
  }
  *child = nullptr;
  bool blocking = true;
  if (const auto refused = read_config(config, parent->place().blocking, blocking)) return refused;
  auto call = std::make_shared<Split>(Split{parent, color, key, child, blocking, 0, {}});
  return group::submit(
      parent, [call] { return go_on(*call); }, true);
}

}  // namespace
}  // namespace fakenccl

ncclResult_t ncclCommSplit(ncclComm_t communicator, int color, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  return fakenccl::call("ncclCommSplit", communicator,
                        [&](const auto& found) { return fakenccl::split(found, color, key, child, config); });
}
