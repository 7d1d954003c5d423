#include "control_thread.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sluice/error.hpp"
#include "sluice/seconds.hpp"

namespace sluice::process {
namespace {

using std::chrono::milliseconds;

constexpr Duration kFarewell = std::chrono::seconds(1);
/// How long a failing rank waits for the hub to take note of it.
constexpr Duration kNoted = std::chrono::seconds(2);

void require_positive(const char* field, Duration value) {
  if (value <= Duration{0}) throw ConfigError(field, "must be positive");
}

/// Often enough that a rank that lives is never silent for a good part of the timeout.
Duration heartbeat_of(const ControlOptions& options) {
  require_positive("stall_timeout", options.stall_timeout);
  require_positive("heartbeat", options.heartbeat);
  require_positive("connect_timeout", options.connect_timeout);
  require_positive("exchange_timeout", options.exchange_timeout);
  return std::max<Duration>(std::min(options.heartbeat, options.stall_timeout / 8), milliseconds(1));
}

}  // namespace

ControlThread::ControlThread(std::uint32_t rank, std::uint32_t ranks, ControlOptions options)
    : rank_(rank),
      ranks_(ranks),
      options_(std::move(options)),
      heartbeat_(heartbeat_of(options_)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      reports_(ranks),
      gone_(ranks) {
  if (!wake_.open()) throw Error("no event descriptor: " + describe(errno));
  progress_.store(clock_.now().count(), std::memory_order_relaxed);
}

void ControlThread::start() {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  // The thread itself bounds the wait: who does not come in time is a failure.
  while (!ready_ && !failure_ && !hub_left_) changed_.wait_for(lock, std::chrono::seconds(1));
  if (together_) return;
  throw Error(failure_ ? failure_->cause : name(0) + " has left the run");
}

void ControlThread::leave() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    requests_.leave = true;
  }
  wake();
  thread_.join();
}

std::vector<Bytes> ControlThread::all_gather(std::span<const std::byte> own) {
  if (own.size() > longest_blob(ranks_)) {
    throw Error(fmt::format("{} bytes for an exchange of all ranks, more than the {} that are possible",
                            own.size(), longest_blob(ranks_)));
  }
  std::unique_lock lock(mutex_);
  const std::uint64_t sequence = next_gather_++;
  if (!failure_ && !hub_left_) {
    requests_.gather.emplace(sequence, Bytes(own.begin(), own.end()));
    wake();
  }
  while (!gathered_ && !failure_ && !hub_left_) changed_.wait_for(lock, std::chrono::seconds(1));
  if (gathered_ && gathered_->sequence == sequence) return std::exchange(gathered_, std::nullopt)->blobs;
  if (failure_) throw Aborted(failure_->cause);
  throw Aborted(name(0) + " has left the run");
}

std::optional<Failure> ControlThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ControlThread::on_failure(std::function<void(const Failure&)> hook) {
  std::optional<Failure> known;
  {
    const std::lock_guard lock(mutex_);
    if (!told_) {
      hooks_.push_back(std::move(hook));
      return;
    }
    known = failure_;
  }
  hook(*known);
}

void ControlThread::fail(Failure::Kind kind, const std::string& cause) {
  std::unique_lock lock(mutex_);
  const Failure own{kind, rank_, with_name(cause)};
  if (!failure_ && !requests_.failure) requests_.failure = own;
  wake();
  // Also of one that is known already: until the others are told of it, this process must not end.
  const Time deadline = now() + kNoted;
  while (!told_ && now() < deadline) changed_.wait_for(lock, milliseconds(100));
  if (failure_) return;
  failure_ = own;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void ControlThread::suspect(const std::string& cause) {
  {
    std::unique_lock lock(mutex_);
    const Time deadline = now() + 2 * heartbeat_ + milliseconds(500);
    while (!failure_ && now() < deadline) changed_.wait_for(lock, milliseconds(50));
  }
  fail(Failure::Kind::Failed, cause);
}

void ControlThread::progressed(Time at) noexcept { progress_.store(at.count(), std::memory_order_relaxed); }

void ControlThread::working(bool inside) noexcept {
  progressed(now());
  inside_.store(inside, std::memory_order_relaxed);
}

void ControlThread::report(const std::string& json) {
  {
    const std::lock_guard lock(mutex_);
    requests_.report = json.size() <= kLongestReport ? json : std::string();
  }
  wake();
}

std::vector<std::string> ControlThread::reports(Duration wait) {
  std::unique_lock lock(mutex_);
  const Time deadline = now() + wait;
  const auto complete = [this] {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!reports_[rank] && !gone_[rank]) return false;
    }
    return true;
  };
  while (!complete() && now() < deadline)
    changed_.wait_for(lock, std::min<Duration>(deadline - now(), milliseconds(100)));
  std::vector<std::string> texts;
  for (const std::optional<std::string>& report : reports_) texts.push_back(report.value_or(""));
  return texts;
}

void ControlThread::declare(Failure failure) {
  Failure first;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    first = *failure_;
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  spread(first);
}

void ControlThread::set_together() {
  const std::lock_guard lock(mutex_);
  together_ = true;
}

void ControlThread::set_ready() {
  {
    const std::lock_guard lock(mutex_);
    ready_ = true;
  }
  changed_.notify_all();
}

void ControlThread::set_gathered(Gathered gathered) {
  {
    const std::lock_guard lock(mutex_);
    gathered_ = std::move(gathered);
  }
  changed_.notify_all();
}

void ControlThread::set_hub_left() {
  {
    const std::lock_guard lock(mutex_);
    hub_left_ = true;
  }
  changed_.notify_all();
}

void ControlThread::set_report(std::uint32_t rank, std::string json) {
  {
    const std::lock_guard lock(mutex_);
    reports_[rank] = std::move(json);
  }
  changed_.notify_all();
}

void ControlThread::set_gone(std::uint32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    gone_[rank] = true;
  }
  changed_.notify_all();
}

Heartbeat ControlThread::own_heartbeat() const noexcept {
  return {Time(progress_.load(std::memory_order_relaxed)), inside_.load(std::memory_order_relaxed)};
}

std::string ControlThread::name(std::uint32_t rank) const {
  return options_.name_of ? options_.name_of(rank) : "rank " + std::to_string(rank);
}

/// A cause that does not begin with the rank that it is of is given its name.
std::string ControlThread::with_name(const std::string& cause) const {
  for (const std::string& name : {name(rank_), "rank " + std::to_string(rank_)}) {
    const bool longer_number =
        cause.size() > name.size() && cause[name.size()] >= '0' && cause[name.size()] <= '9';
    if (cause.starts_with(name) && !longer_number) return cause;
  }
  return name(rank_) + ": " + cause;
}

Failure ControlThread::failure_of(const ControlLink& link, std::uint32_t rank) const {
  if (link.state() == ControlLink::State::Closed)
    return {Failure::Kind::Died, rank, name(rank) + " died (its connection closed)"};
  return {Failure::Kind::Silent, rank,
          fmt::format("{} cannot be reached any more ({})", name(rank), describe(link.error()))};
}

Failure ControlThread::silence_of(std::uint32_t rank, Duration quiet) const {
  return {Failure::Kind::Silent, rank,
          fmt::format("nothing was heard of {} for {:.1f} s: it is stopped, or its host is gone", name(rank),
                      seconds(quiet))};
}

Failure ControlThread::garbage_of(std::uint32_t rank, const std::string& what) const {
  return {Failure::Kind::Failed, rank,
          fmt::format("{} sent what cannot be understood: {}", name(rank), what)};
}

void ControlThread::run() {
  Time last_turn = now();
  Time next_beat = last_turn;
  do {
    turn(last_turn, next_beat);
  } while (take_requests());
  farewell();
}

/// What has come is read before anybody is found silent, and a long turn, in which this process did not
/// run, counts only as far as a turn should take.
void ControlThread::turn(Time& last_turn, Time& next_beat) {
  wait(next_beat);
  serve(std::span(polled_).subspan(1));
  const Time at = now();
  if (at >= next_beat) {
    beat();
    next_beat = at + heartbeat_;
  }
  watch(std::min(at - last_turn, 2 * heartbeat_));
  last_turn = at;
  flush();
  call_hooks();
}

void ControlThread::wait(Time until) {
  polled_.assign(1, pollfd{wake_.get(), POLLIN, 0});
  collect(polled_);
  const auto left = std::chrono::ceil<milliseconds>(until - now());
  const auto timeout = static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
  if (poll(polled_.data(), polled_.size(), timeout) < 0) {
    for (pollfd& event : polled_) event.revents = 0;
  }
  if (polled_.front().revents == 0) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof count);
}

bool ControlThread::take_requests() {
  Requests requests;
  {
    const std::lock_guard lock(mutex_);
    std::swap(requests, requests_);
  }
  if (requests.failure) take_failure(std::move(*requests.failure));
  if (requests.gather) take_gather(requests.gather->first, std::move(requests.gather->second));
  if (requests.report) take_report(std::move(*requests.report));
  flush();
  call_hooks();
  return !requests.leave;
}

void ControlThread::call_hooks() {
  std::vector<std::function<void(const Failure&)>> hooks;
  std::optional<Failure> known;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || told_) return;
    told_ = true;
    known = failure_;
    hooks.swap(hooks_);
  }
  changed_.notify_all();
  for (const auto& hook : hooks) hook(*known);
}

void ControlThread::farewell() {
  const Time deadline = now() + kFarewell;
  say_goodbye();
  while (part() && now() < deadline) wait(std::min(deadline, now() + heartbeat_));
}

void ControlThread::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

}  // namespace sluice::process
