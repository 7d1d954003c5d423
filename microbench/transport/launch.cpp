#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
#include <string>

#include "forked_ranks.hpp"
#include "sluice/dispatcher.hpp"
#include "sluice/error.hpp"
#include "sluice/host/event_wake.hpp"
#include "sluice/host/host_executor.hpp"
#include "sluice/host/steady_clock.hpp"
#include "transport/link.hpp"
#include "transport/measurements.hpp"
#include "transport/samples.hpp"

namespace sluice::microbench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMostMessages = 20000;
/// Long enough for the other process to fall asleep.
constexpr Duration kFallsAsleep = 300us;

/// What the two processes tell each other besides messages.
struct Shared {
  std::atomic<Time::rep> sent{0};
  std::atomic<std::uint32_t> woken{0};
  double us[kMostMessages];
};

/// A device that notes when it was given a forward, and whose tasks end as soon as it is asked.
class NotingExecutor final : public Executor {
 public:
  NotingExecutor(const std::atomic<Time::rep>& sent, double* us) : sent_(sent), us_(us) {}

  [[nodiscard]] std::uint32_t room(Lane /*lane*/) const override { return running_ ? 0 : 1; }
  void launch(const Launch& launch) override {
    if (launch.task.pass == Pass::Forward) {
      const Duration taken = host::SteadyClock().now() - Time(sent_.load(std::memory_order_relaxed));
      us_[launch.task.microbatch] = std::chrono::duration<double, std::micro>(taken).count();
    }
    done_ = {launch.task, launch.slot, {}, {}, Status::Ok, launch.whole};
    running_ = true;
  }
  bool poll(Done& done) override {
    if (!running_) return false;
    done = done_;
    running_ = false;
    return true;
  }
  [[nodiscard]] Time next_deadline() const override { return kNever; }

 private:
  const std::atomic<Time::rep>& sent_;
  double* us_;
  Done done_;
  bool running_ = false;
};

DispatcherConfig config_of(std::uint32_t microbatches) {
  DispatcherConfig config;
  config.limit = microbatches;
  config.record_decisions = true;
  return config;
}

/// Stage 0 by hand: one message at a time, each after its answer.
void drive(Link& link, Waiting waiting, Shared& shared) {
  const host::SteadyClock clock;
  for (Microbatch m = 0; m < link.pipeline().microbatches(); ++m) {
    const Time start = clock.now() + (waiting == Waiting::Sleeps ? kFallsAsleep : Duration(5us));
    while (clock.now() < start) link.ended();
    shared.sent.store(clock.now().count(), std::memory_order_relaxed);
    link.send(m);
    while (link.receive() == 0) link.ended();
  }
}

/// Stage 1 with a dispatcher.
void dispatch(Link& link, Waiting waiting, Shared& shared) {
  const host::SteadyClock clock;
  NotingExecutor executor(shared.sent, shared.us);
  SingleRank agreement;
  DispatcherConfig config = config_of(link.pipeline().microbatches());
  config.rank = config.stage = 1;
  Dispatcher dispatcher(link.pipeline(), config, Policy::readiness(Hint::named("bf", link.pipeline(), 1)),
                        {executor, link.transport(), agreement, clock});
  dispatcher.begin({0});
  while (!dispatcher.finished()) {
    if (dispatcher.progress() || waiting == Waiting::Polls) continue;
    link.plane().wake().wait_until(clock.now() + 100ms);
  }
}

/// How long a sleeping thread of another process takes to notice an event descriptor.
void sleep_on(int descriptor, Shared& shared, std::uint32_t wakes) {
  const host::SteadyClock clock;
  for (std::uint32_t i = 0; i < wakes; ++i) {
    pollfd event{descriptor, POLLIN, 0};
    poll(&event, 1, 1000);
    const Duration taken = clock.now() - Time(shared.sent.load(std::memory_order_relaxed));
    shared.us[i] = std::chrono::duration<double, std::micro>(taken).count();
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read_bytes = read(descriptor, &count, sizeof count);
    shared.woken.store(i + 1, std::memory_order_release);
  }
}

void wake_up(int descriptor, Shared& shared, std::uint32_t wakes) {
  const host::SteadyClock clock;
  for (std::uint32_t i = 0; i < wakes; ++i) {
    const Time start = clock.now() + kFallsAsleep;
    while (clock.now() < start) {
    }
    shared.sent.store(clock.now().count(), std::memory_order_relaxed);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(descriptor, &one, sizeof one);
    while (shared.woken.load(std::memory_order_acquire) <= i) {
    }
  }
}

/// Keeps a core busy for as long as a task of a trainer would.
class BusyStage final : public host::Stage {
 public:
  explicit BusyStage(Duration time) : time_(time) {}

  void forward(const host::TaskContext& /*context*/, std::span<host::Payload> /*inputs*/,
               std::span<host::Payload> /*outputs*/) override {
    compute();
  }
  void backward(const host::TaskContext& /*context*/, bool /*whole*/, std::span<host::Payload> /*grads*/,
                std::span<host::Payload> /*input_grads*/) override {
    compute();
  }
  void weight_grad(const host::TaskContext& /*context*/) override {}

 private:
  void compute() const {
    const host::SteadyClock clock;
    const Time end = clock.now() + time_;
    while (clock.now() < end) {
    }
  }

  Duration time_;
};

/// One rank as a run has it.
HandOvers run_rank(process::Bootstrap& bootstrap, Duration task_time, std::uint32_t microbatches) {
  Link link(bootstrap, 0, microbatches);
  const host::SteadyClock clock;
  const auto stage = static_cast<StageId>(bootstrap.rank());
  DispatcherConfig config = config_of(8);
  config.rank = config.stage = stage;
  host::SlotBuffers buffers(link.pipeline(), stage, 16);
  BusyStage code(task_time);
  host::HostExecutor executor(link.pipeline(), stage, {&code}, buffers, link.plane().wake(), {.rank = stage});
  SingleRank agreement;
  Dispatcher dispatcher(link.pipeline(), config, Policy::readiness(Hint::named("bf", link.pipeline(), stage)),
                        {executor, link.transport(), agreement, clock});
  HandOvers counts;
  bool slept = false;
  dispatcher.begin({0});
  host::Idler idler(link.plane().wake());
  while (!dispatcher.finished()) {
    const std::uint64_t launched = dispatcher.log().decisions().size();
    const bool happened = dispatcher.progress();
    if (slept) counts.launches_after_sleep += dispatcher.log().decisions().size() - launched;
    slept = false;
    if (happened) {
      idler.reset();
      continue;
    }
    const std::uint64_t sleeps = link.plane().sleeps();
    idler.wait(std::min(dispatcher.next_deadline(), clock.now() + 100ms));
    slept = link.plane().sleeps() != sleeps;
  }
  counts.tasks = dispatcher.log().decisions().size();
  counts.sleeps = link.plane().sleeps();
  return counts;
}

}  // namespace

Latency measure_launch(Waiting waiting, std::size_t bytes, std::uint32_t messages) {
  if (messages > kMostMessages) throw ConfigError("launches", "at most " + std::to_string(kMostMessages));
  const test::SharedMapping mapping(sizeof(Shared));
  auto& shared = *mapping.as<Shared>();
  run_pair(Cores::OneEach, [&](process::Bootstrap& bootstrap) {
    Link link(bootstrap, bytes, messages);
    if (bootstrap.rank() == 0) {
      drive(link, waiting, shared);
    } else {
      dispatch(link, waiting, shared);
    }
  });
  return summarize({shared.us, messages});
}

Latency measure_bare_wake(std::uint32_t wakes) {
  if (wakes > kMostMessages) throw ConfigError("launches", "at most " + std::to_string(kMostMessages));
  const test::SharedMapping mapping(sizeof(Shared));
  auto& shared = *mapping.as<Shared>();
  const int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0) throw Error("no event descriptor");
  run_pair(Cores::OneEach, [&](process::Bootstrap& bootstrap) {
    if (bootstrap.rank() == 0) {
      wake_up(descriptor, shared, wakes);
    } else {
      sleep_on(descriptor, shared, wakes);
    }
  });
  close(descriptor);
  return summarize({shared.us, wakes});
}

HandOvers measure_hand_overs(double task_us, std::uint32_t microbatches) {
  const test::SharedMapping mapping(2 * sizeof(HandOvers));
  const auto task_time =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::micro>(task_us));
  run_pair(Cores::Any, [&](process::Bootstrap& bootstrap) {
    mapping.as<HandOvers>()[bootstrap.rank()] = run_rank(bootstrap, task_time, microbatches);
  });
  HandOvers both;
  for (const HandOvers& rank : {mapping.as<HandOvers>()[0], mapping.as<HandOvers>()[1]}) {
    both.tasks += rank.tasks;
    both.sleeps += rank.sleeps;
    both.launches_after_sleep += rank.launches_after_sleep;
  }
  return both;
}

}  // namespace sluice::microbench
