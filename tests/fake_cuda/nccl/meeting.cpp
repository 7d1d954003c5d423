#include "meeting.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace fakenccl {
namespace {

constexpr std::uint32_t kMark = 0xFA4E0003;

/// What a unique id holds.
struct Contents {
  std::uint32_t mark;
  std::int32_t process;
  std::int32_t file;
  std::uint64_t key;
};
static_assert(sizeof(Contents) <= sizeof(ncclUniqueId));

struct Known {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Meeting>> by_key;
  /// Those that others have still to open.
  std::map<std::uint64_t, std::shared_ptr<Meeting>> kept;
  std::uint64_t made = 0;
};

Known& known() {
  static auto& value = *new Known;
  return value;
}

bool all_came(const Board& board) {
  const int ranks = board.ranks.load();
  for (int i = 0; i < ranks; ++i) {
    if (board.rank[static_cast<std::size_t>(i)].presence.load() == Presence::Absent) return false;
  }
  return ranks > 0;
}

}  // namespace

Meeting::Meeting(int file, std::uint64_t key)
    : file_(file), key_(key), edges_(static_cast<std::size_t>(kMostRanks) * kMostRanks * kEdges) {}

Meeting::~Meeting() {
  if (board_ != nullptr) munmap(board_, sizeof(Board));
  close(file_);
}

bool Meeting::map() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return false;
  board_ = static_cast<Board*>(memory);
  return true;
}

std::shared_ptr<Meeting> Meeting::create(ncclUniqueId& id) {
  const int file = memfd_create("fakenccl", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const std::lock_guard lock(known().mutex);
  // Ids that were made for other processes alone.
  std::erase_if(known().kept, [](const auto& entry) { return all_came(entry.second->board()); });
  std::erase_if(known().by_key, [](const auto& entry) { return entry.second.expired(); });
  const auto process = static_cast<std::uint64_t>(getpid());
  const std::uint64_t key = process << 32U | ++known().made;
  std::shared_ptr<Meeting> made(new Meeting(file, key));
  if (ftruncate(file, sizeof(Board)) != 0 || !made->map()) return nullptr;
  made->board_->key = key;
  const Contents contents{kMark, getpid(), file, key};
  std::memset(&id, 0, sizeof id);
  std::memcpy(&id, &contents, sizeof contents);
  known().by_key[key] = made;
  known().kept[key] = made;
  return made;
}

std::shared_ptr<Meeting> Meeting::find(const ncclUniqueId& id) {
  Contents contents{};
  std::memcpy(&contents, &id, sizeof contents);
  if (contents.mark != kMark) return nullptr;
  const std::lock_guard lock(known().mutex);
  if (auto here = known().by_key[contents.key].lock()) return here;
  const std::string path =
      "/proc/" + std::to_string(contents.process) + "/fd/" + std::to_string(contents.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  std::shared_ptr<Meeting> opened(new Meeting(file, contents.key));
  const off_t bytes = lseek(file, 0, SEEK_END);
  // The number may stand for another file by now.
  if (bytes != static_cast<off_t>(sizeof(Board)) || !opened->map()) return nullptr;
  if (opened->board_->key != contents.key) return nullptr;
  known().by_key[contents.key] = opened;
  return opened;
}

void Meeting::forget(const Meeting& meeting) {
  const std::lock_guard lock(known().mutex);
  known().kept.erase(meeting.key_);
}

const void* Meeting::window_edge(int rank) const { return &window_edges_.at(static_cast<std::size_t>(rank)); }

const void* Meeting::signal_edge(int from, int to, std::uint64_t number) const {
  const auto pair = static_cast<std::size_t>(from) * kMostRanks + static_cast<std::size_t>(to);
  return &edges_[pair * kEdges + number % kEdges];
}

}  // namespace fakenccl
