#include "one_sided.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "call.hpp"
#include "nccl_hooks.hpp"
#include "report.hpp"
#include "thread_sanitizer.hpp"
#include "work.hpp"

namespace fakenccl {
namespace {

using fakecuda::Work;

/// An operation that was launched uses a window.
class WindowUse {
 public:
  explicit WindowUse(std::shared_ptr<Window> window) : window_(std::move(window)) {
    if (window_ != nullptr) ++window_->users;
  }
  ~WindowUse() { end(); }
  WindowUse(const WindowUse&) = delete;
  WindowUse& operator=(const WindowUse&) = delete;

  /// Its stream may keep the operation for a while.
  void end() {
    if (window_ != nullptr) --window_->users;
    window_.reset();
  }

 private:
  std::shared_ptr<Window> window_;
};

std::atomic<std::uint64_t>& signals(Communicator& communicator, int from, int to) {
  return communicator.board().signals[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

/// What this stream did before is seen by who waits for the signal.
void signal(Communicator& communicator, int peer) {
  const int rank = communicator.place().rank;
  auto& sent = signals(communicator, rank, peer);
  const std::uint64_t number = sent.load() + 1;
  fakecuda::release_edge(communicator.meeting().signal_edge(rank, peer, number));
  sent.store(number);
  communicator.board().bell.ring();
}

bool target_is_there(Communicator& communicator, const Put& put) {
  const std::uint64_t ended = communicator.board_of(put.peer).ended_windows.load();
  if ((ended >> put.target->number % kMostWindows & 1U) == 0) return true;
  communicator.fail_all(ncclInvalidUsage, "a put of " + communicator.name() + " into a window that rank " +
                                              std::to_string(put.peer) + " has deregistered");
  return false;
}

void write(const Put& put) {
  fakecuda::Location target = put.target->parts[static_cast<std::size_t>(put.peer)];
  target.offset += put.target_offset;
  Work work;
  work.label = "put of " + std::to_string(put.bytes) + " bytes";
  work.accesses.push_back({put.source, put.bytes, false});
  work.accesses.push_back({target, put.bytes, true});
  work.run = [&] {
    const fakecuda::Exposed exposed;
    std::memmove(target.bytes(), put.source.bytes(), put.bytes);
    return cudaSuccess;
  };
  execute(work);
}

void carry_out(Communicator& communicator, const Put& put) {
  if (put.bytes > 0) {
    if (!target_is_there(communicator, put)) return;
    write(put);
    if (fakecuda::device_error() != cudaSuccess) return;
  }
  if (!fakecuda::nccl_hooks::loses_signal()) signal(communicator, put.peer);
}

void carry_out(Communicator& communicator, const std::vector<Awaited>& expected) {
  const int rank = communicator.place().rank;
  for (const Awaited& awaited : expected) {
    const auto holds = [&] { return signals(communicator, awaited.peer, rank).load() >= awaited.signals; };
    if (!communicator.wait(holds, [] { return std::string(); })) return;
    const std::uint64_t kept = std::min(awaited.signals, Meeting::kEdges);
    for (std::uint64_t back = 0; back < kept; ++back) {
      fakecuda::acquire_edge(communicator.meeting().signal_edge(awaited.peer, rank, awaited.signals - back));
    }
  }
}

}  // namespace

Operation put_operation(const std::shared_ptr<Communicator>& communicator, const Put& put) {
  const std::string what =
      put.bytes > 0 ? "put of " + std::to_string(put.bytes) + " bytes" : std::string("signal");
  const auto begin = [communicator, put] {
    auto use = std::make_shared<WindowUse>(put.target);
    return [communicator, put, use] {
      carry_out(*communicator, put);
      use->end();
    };
  };
  return {what + " to rank " + std::to_string(put.peer), false, begin};
}

Operation wait_operation(const std::shared_ptr<Communicator>& communicator,
                         const std::vector<Awaited>& awaited) {
  const auto begin = [communicator, awaited] {
    std::vector<Awaited> expected = awaited;
    for (Awaited& one : expected) {
      auto& so_far = communicator->expected_signals[static_cast<std::size_t>(one.peer)];
      so_far += one.signals;
      one.signals = so_far;
    }
    return [communicator, expected] { carry_out(*communicator, expected); };
  };
  return {"wait for signals of rank " + std::to_string(awaited.front().peer), true, begin};
}

}  // namespace fakenccl
