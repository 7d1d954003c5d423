#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "handles.hpp"
#include "notes.hpp"

namespace fakenccl {

struct Window;

/// Part of a call that goes on in the background: does what can be done without waiting, and has a result
/// when the call is over.
using Step = std::function<std::optional<ncclResult_t>()>;

/// Something that a communicator does on a stream.
struct Operation {
  std::string label;
  /// Waits for peers as long as they please.
  bool patient = false;
  /// Called when it is launched, in the order of launches; what it gives is run on the stream.
  std::function<std::function<void()>()> begin;
};

/// One rank's end of a communicator.
///
/// Its operations run in the order of their launches, also on different streams. What waits ends only when
/// the communicator is aborted, or when the ranks were found to disagree.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Place {
    int rank = 0;
    int ranks = 1;
    int device = 0;
    bool blocking = true;
  };

  Communicator(std::shared_ptr<Meeting> meeting, const Place& place);

  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] Meeting& meeting() const { return *meeting_; }
  [[nodiscard]] Board& board() const { return meeting_->board(); }
  [[nodiscard]] RankBoard& board_of(int rank) const { return board().rank[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Notes& notes() { return notes_; }
  /// For messages.
  [[nodiscard]] std::string name() const;

  /// Begins a call that may go on in the background.
  /// @param setup not only the launch of an operation: never over at once if the communicator does not block
  /// @return as the call does: waits for its end if the communicator blocks
  ncclResult_t start(Step step, bool setup);
  /// The same without starting yet, for calls in groups, and then: what goes on, waited for if it blocks.
  void add(Step step, bool setup);
  ncclResult_t finish();
  /// Goes on with what is in the background. What ncclCommGetAsyncError answers.
  ncclResult_t state();
  /// Whether it may be used now: a refusal otherwise.
  ncclResult_t ready();
  /// An asynchronous error; the first counts.
  void set_error(ncclResult_t code);
  /// No operation may be launched any more.
  void close() { closed_.store(true); }

  ncclResult_t launch(cudaStream_t stream, const Operation& operation);
  /// Waits in an operation.
  /// @param stuck asked after the bound for deadlocks: why it waits in vain, empty if it need not
  /// @return false if the operation shall end without having been carried out
  bool wait(const std::function<bool()>& holds, const std::function<std::string()>& stuck);
  /// Reports it, and ends what the ranks wait for.
  void fail_all(ncclResult_t code, const std::string& message);
  [[nodiscard]] bool idle() const;

  /// What runs ends, what waits in streams will not be carried out.
  void abort();
  /// Waits for what was enqueued.
  void leave();

  void add(std::shared_ptr<Window> window);
  void remove(const Window& window);
  [[nodiscard]] std::vector<std::shared_ptr<Window>> windows() const;
  /// Its own number for windows, the same on all ranks.
  [[nodiscard]] std::size_t next_window() { return windows_made_++; }

  /// Used by operations, in the order of their launches.
  std::uint64_t collectives = 0;
  std::uint64_t chunks = 0;
  std::array<std::uint64_t, kMostRanks> expected_signals{};

 private:
  struct Job {
    Step step;
    std::size_t polls;
  };
  struct Open {
    std::string label;
    bool patient;
  };

  std::size_t polls_for(bool setup);
  void drop_jobs();
  void look_at_peers();
  [[nodiscard]] ncclResult_t error() const;
  [[nodiscard]] bool over() const { return aborted_.load() || board().failure.load() != ncclSuccess; }
  std::uint64_t open(const Operation& operation);
  void end(std::uint64_t ticket);
  void carry_out(std::uint64_t ticket, const std::function<void()>& body);
  [[nodiscard]] bool has_turn(std::uint64_t ticket) const;
  [[nodiscard]] std::string blocked_by(std::uint64_t ticket) const;

  std::shared_ptr<Meeting> meeting_;
  Place place_;
  Notes notes_;
  std::atomic<int> error_{ncclSuccess};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> closed_{false};
  std::atomic<std::int64_t> looked_us_{0};

  std::mutex jobs_mutex_;
  std::deque<Job> jobs_;
  bool launched_before_ = false;

  mutable std::mutex operations_mutex_;
  std::condition_variable ended_;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t tickets_ = 0;
  int running_ = 0;

  mutable std::mutex windows_mutex_;
  std::vector<std::shared_ptr<Window>> windows_;
  std::size_t windows_made_ = 0;
};

using Communicators = fakecuda::Handles<Communicator, ncclComm_t>;
Communicators& communicators();
/// Gives it a handle.
ncclComm_t enter(std::shared_ptr<Communicator> communicator);

}  // namespace fakenccl
