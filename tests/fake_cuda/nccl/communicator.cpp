#include "communicator.hpp"

#include <unistd.h>

#include "call.hpp"
#include "chance.hpp"
#include "failure.hpp"
#include "live_count.hpp"
#include "nccl_hooks.hpp"
#include "process.hpp"
#include "report.hpp"
#include "window.hpp"

namespace fakenccl {
namespace {

using std::chrono::microseconds;

/// Between two looks at whether the peers' processes are there.
constexpr std::int64_t kLookEveryUs = 2000;
/// Longest sleep without a look at the peers and at the bound for deadlocks.
constexpr microseconds kLongestSleep{5000};

std::int64_t now_us() { return std::chrono::steady_clock::now().time_since_epoch() / microseconds(1); }

void break_communicators(void* handle, int code) {
  const auto result = static_cast<ncclResult_t>(code);
  if (handle == nullptr) {
    for (const auto& communicator : communicators().all()) communicator->set_error(result);
  } else if (const auto communicator = communicators().find(static_cast<ncclComm_t>(handle))) {
    communicator->set_error(result);
  }
}

[[maybe_unused]] const bool kBreaks = [] {
  fakecuda::nccl_hooks::on_break(break_communicators);
  return true;
}();

}  // namespace

Communicator::Communicator(std::shared_ptr<Meeting> meeting, const Place& place)
    : meeting_(std::move(meeting)), place_(place), notes_(meeting_, place.rank, place.ranks) {}

std::string Communicator::name() const {
  return "rank " + std::to_string(place_.rank) + " of " + std::to_string(place_.ranks);
}

std::size_t Communicator::polls_for(bool setup) {
  if (place_.blocking) return 0;
  const bool first = !launched_before_;
  if (!setup) launched_before_ = true;
  // The real library connects the ranks at the first operation, in the background.
  return setup || first ? 1 + fakecuda::draw(3) : 0;
}

void Communicator::add(Step step, bool setup) {
  const std::lock_guard lock(jobs_mutex_);
  jobs_.push_back({std::move(step), polls_for(setup)});
}

ncclResult_t Communicator::start(Step step, bool setup) {
  add(std::move(step), setup);
  return finish();
}

ncclResult_t Communicator::finish() {
  for (;;) {
    const std::uint32_t count = board().bell.count();
    const ncclResult_t result = state();
    if (result != ncclInProgress || !place_.blocking || aborted_.load()) return result;
    board().bell.wait(count, kLongestSleep);
  }
}

ncclResult_t Communicator::state() {
  look_at_peers();
  const std::lock_guard lock(jobs_mutex_);
  while (error() == ncclSuccess && !jobs_.empty()) {
    Job& job = jobs_.front();
    if (job.polls > 0) {
      --job.polls;
      return ncclInProgress;
    }
    const std::optional<ncclResult_t> result = job.step();
    if (!result) return ncclInProgress;
    jobs_.pop_front();
    if (*result != ncclSuccess) set_error(*result);
  }
  if (error() != ncclSuccess) jobs_.clear();
  return error();
}

ncclResult_t Communicator::ready() {
  if (closed_.load()) return misuse(ncclInvalidUsage, name() + " uses a communicator that was finalized");
  const ncclResult_t now = finish();
  if (now == ncclInProgress) {
    return fail(ncclInvalidArgument, name() + " uses a communicator before the previous call has ended");
  }
  return now == ncclSuccess ? now : fail(now, name() + ": the communicator has failed");
}

void Communicator::set_error(ncclResult_t code) {
  int none = ncclSuccess;
  error_.compare_exchange_strong(none, code);
}

ncclResult_t Communicator::error() const {
  if (const int failure = board().failure.load(); failure != ncclSuccess) {
    return static_cast<ncclResult_t>(failure);
  }
  if (fakecuda::device_error() != cudaSuccess) return ncclUnhandledCudaError;
  return static_cast<ncclResult_t>(error_.load());
}

void Communicator::look_at_peers() {
  const std::int64_t now = now_us();
  const bool processes = now - looked_us_.load() >= kLookEveryUs;
  if (processes) looked_us_.store(now);
  for (int i = 0; i < place_.ranks; ++i) {
    if (i == place_.rank) continue;
    const RankBoard& peer = board_of(i);
    const Presence presence = peer.presence.load();
    if (presence == Presence::Aborted) set_error(ncclRemoteError);
    if (!processes || presence != Presence::Joined || peer.process.load() == getpid()) continue;
    if (!process_lives(peer.process.load()) && peer.presence.load() == Presence::Joined) {
      set_error(ncclRemoteError);
    }
  }
}

void Communicator::fail_all(ncclResult_t code, const std::string& message) {
  int none = ncclSuccess;
  if (board().failure.compare_exchange_strong(none, code)) fakecuda::report(message);
  board().bell.ring();
}

void Communicator::add(std::shared_ptr<Window> window) {
  const std::lock_guard lock(windows_mutex_);
  windows_.push_back(std::move(window));
  fakecuda::count_live("windows", 1);
}

void Communicator::remove(const Window& window) {
  const std::lock_guard lock(windows_mutex_);
  if (std::erase_if(windows_, [&](const auto& other) { return other.get() == &window; }) > 0) {
    fakecuda::count_live("windows", -1);
  }
}

std::vector<std::shared_ptr<Window>> Communicator::windows() const {
  const std::lock_guard lock(windows_mutex_);
  return windows_;
}

bool Communicator::idle() const {
  for (int i = 0; i < place_.ranks; ++i) {
    const RankBoard& rank = board_of(i);
    if (rank.presence.load() == Presence::Joined && rank.pending.load() != 0) return false;
  }
  return true;
}

/// What they hold may hold the communicator.
void Communicator::drop_jobs() {
  const std::lock_guard lock(jobs_mutex_);
  jobs_.clear();
}

void Communicator::abort() {
  aborted_.store(true);
  closed_.store(true);
  board_of(place_.rank).presence.store(Presence::Aborted);
  board().bell.ring();
  drop_jobs();
  std::unique_lock lock(operations_mutex_);
  ended_.wait(lock, [this] { return running_ == 0; });
}

void Communicator::leave() {
  const auto bound = fakecuda::nccl_hooks::deadlock_bound();
  closed_.store(true);
  std::unique_lock lock(operations_mutex_);
  const bool ended = ended_.wait_for(lock, bound, [this] { return open_.empty(); });
  const std::string label = ended ? "" : open_.begin()->second.label;
  lock.unlock();
  if (!ended) {
    fakecuda::report("ncclCommDestroy of " + name() + " waits for an operation that does not end: " + label);
    abort();
    return;
  }
  drop_jobs();
  board_of(place_.rank).presence.store(Presence::Left);
  board().bell.ring();
}

bool Communicator::wait(const std::function<bool()>& holds, const std::function<std::string()>& stuck) {
  const auto bound = fakecuda::nccl_hooks::deadlock_bound();
  const auto started = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint32_t count = board().bell.count();
    if (over() || fakecuda::device_error() != cudaSuccess) return false;
    if (holds()) return true;
    look_at_peers();
    if (std::chrono::steady_clock::now() - started > bound) {
      if (const std::string why = stuck(); !why.empty()) {
        fail_all(ncclInternalError, why);
        return false;
      }
    }
    board().bell.wait(count, kLongestSleep);
  }
}

Communicators& communicators() {
  static auto& handles = *new Communicators;
  return handles;
}

ncclComm_t enter(std::shared_ptr<Communicator> communicator) {
  fakecuda::count_live("communicators", 1);
  return communicators().add(std::move(communicator));
}

}  // namespace fakenccl
