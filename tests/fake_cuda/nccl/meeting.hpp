#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "board.hpp"

namespace fakenccl {

/// A board as this process sees it: its ranks in one process share one. The memory is opened through the
/// entry in /proc of the process that made it, so that no name is left behind.
class Meeting {
 public:
  /// A new one. It is kept until `forget`, so that the others can come.
  /// @return null if the system has no memory
  static std::shared_ptr<Meeting> create(ncclUniqueId& id);
  /// Null if the id is none, or who made it is gone.
  static std::shared_ptr<Meeting> find(const ncclUniqueId& id);
  /// All ranks are here.
  static void forget(const Meeting& meeting);

  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] Board& board() const { return *board_; }
  /// What stands for the signal of that number in happens-before edges.
  [[nodiscard]] const void* signal_edge(int from, int to, std::uint64_t number) const;

  /// What stands for the window that a rank offers.
  [[nodiscard]] const void* window_edge(int rank) const;

  /// How many signals back their edges are kept apart.
  static constexpr std::uint64_t kEdges = 64;

 private:
  Meeting(int file, std::uint64_t key);
  bool map();

  int file_;
  std::uint64_t key_;
  Board* board_ = nullptr;
  std::vector<char> edges_;
  std::array<char, kMostRanks> window_edges_{};
};

}  // namespace fakenccl
