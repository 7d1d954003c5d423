#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "forked_ranks.hpp"
#include "sluice/error.hpp"
#include "sluice/host/slot_buffers.hpp"
#include "sluice/host/steady_clock.hpp"
#include "sluice/ucx/message_plane.hpp"
#include "typed_tensor.hpp"

/// Message planes of forked processes, over each transport of one host.
namespace sluice::ucx {
namespace {

using namespace std::chrono_literals;

constexpr DLDataType kBytes = {kDLUInt, 8, 1};
constexpr Microbatch kMicrobatches = 32;
constexpr int kWrong = 2;
constexpr int kLate = 3;
constexpr int kNoError = 4;

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("ucx") != std::string::npos) names.insert(name);
  }
  return names;
}

std::set<std::string> without(std::set<std::string> names, const std::set<std::string>& others) {
  std::erase_if(names, [&](const std::string& name) { return others.contains(name); });
  return names;
}

std::int64_t size_of(Microbatch microbatch) {
  constexpr std::int64_t kSizes[] = {1, 100, 5000, 70000, 0, 1 << 20};
  return kSizes[microbatch % std::size(kSizes)];
}

/// One rank of two that send each other a message of each microbatch.
class Exchange {
 public:
  explicit Exchange(process::Bootstrap& bootstrap)
      : stage_(static_cast<StageId>(bootstrap.rank())),
        plane_(bootstrap, {}),
        buffers_(pipeline_, stage_, kMicrobatches),
        transport_(plane_.transport(1, pipeline_, stage_, {0, 1}, &buffers_)) {}

  [[nodiscard]] MessagePlane& plane() noexcept { return plane_; }
  [[nodiscard]] std::uint32_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] bool intact() const noexcept { return intact_; }
  [[nodiscard]] bool over() const noexcept { return arrived_ == kMicrobatches && sent_ == kMicrobatches; }

  void send(Microbatch m) {
    host::SlotBuffer& buffer = buffers_[m];
    host::Payload& payload = stage_ == 0 ? buffer.outputs[0] : buffer.input_grads[0];
    payload.push_back(typed_tensor(kBytes, {size_of(m)}, seed_of(stage_, m)));
    transport_->send({0, m, 0, stage_ == 0 ? Direction::Activation : Direction::Gradient}, m);
  }

  /// @return whether anything happened
  bool look() {
    bool happened = false;
    Offer offer;
    for (; transport_->poll(offer); happened = true) transport_->accept(offer, offer.id.microbatch);
    Arrival arrival;
    for (; transport_->poll(arrival); happened = true) check(arrival);
    SendDone done;
    for (; transport_->poll(done); happened = true) ++sent_;
    return happened;
  }

 private:
  static std::uint32_t seed_of(StageId stage, Microbatch m) { return 1000 * stage + m; }

  void check(const Arrival& arrival) {
    host::SlotBuffer& buffer = buffers_[arrival.slot];
    host::Payload& payload = stage_ == 0 ? buffer.output_grads[0] : buffer.inputs[0];
    const auto other = static_cast<StageId>(1 - stage_);
    const Microbatch m = arrival.id.microbatch;
    const host::TensorPtr expected = typed_tensor(kBytes, {size_of(m)}, seed_of(other, m));
    intact_ &= payload.size() == 1 && bytes_of_tensor(payload[0]) == bytes_of_tensor(expected);
    payload.clear();
    ++arrived_;
  }

  Pipeline pipeline_ = Pipeline::chain(2, kMicrobatches);
  StageId stage_;
  MessagePlane plane_;
  host::SlotBuffers buffers_;
  std::unique_ptr<Transport> transport_;
  std::uint32_t arrived_ = 0;
  std::uint32_t sent_ = 0;
  bool intact_ = true;
};

class OverTransports : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { before_ = shared_memory_files(); }
  /// Other tests run at the same time: what counts is a new file that stays.
  void TearDown() override {
    std::set<std::string> left = without(shared_memory_files(), before_);
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!left.empty() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(20ms);
      const std::set<std::string> now = shared_memory_files();
      std::erase_if(left, [&](const std::string& name) { return !now.contains(name); });
    }
    EXPECT_EQ(left, std::set<std::string>{});
  }

  static void use_transports() {
    setenv("UCX_TLS", GetParam(), 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
  }

 private:
  std::set<std::string> before_;
};

TEST_P(OverTransports, ProcessesExchangeMessagesBothWaysAndSleepBetween) {
  test::ForkedRanks ranks(2, [](process::Bootstrap& bootstrap) {
    use_transports();
    Exchange exchange(bootstrap);
    for (Microbatch m = 0; m < kMicrobatches; ++m) exchange.send(m);
    const host::SteadyClock clock;
    const Time until = clock.now() + 40s;
    // A message that does not wake its receiver shows as a late one.
    while (!exchange.over()) {
      if (clock.now() >= until) return kLate;
      if (!exchange.look()) exchange.plane().wake().wait_until(until);
    }
    return exchange.intact() ? 0 : kWrong;
  });
  for (const test::Ending& ending : ranks.wait()) EXPECT_EQ(ending.code, 0);
}

/// Messages one by one, so that both ranks sleep for each.
TEST_P(OverTransports, EveryMessageWakesItsReceiver) {
  test::ForkedRanks ranks(2, [](process::Bootstrap& bootstrap) {
    use_transports();
    Exchange exchange(bootstrap);
    const host::SteadyClock clock;
    const Time until = clock.now() + 40s;
    Microbatch next = 0;
    if (bootstrap.rank() == 0) exchange.send(next++);
    while (!exchange.over()) {
      if (clock.now() >= until) return kLate;
      if (!exchange.look()) exchange.plane().wake().wait_until(until);
      // Rank 1 answers what has come; rank 0 goes on when it has its answer.
      const std::uint32_t due = exchange.arrived() + (bootstrap.rank() == 0 ? 1 : 0);
      while (next < std::min(due, kMicrobatches)) exchange.send(next++);
    }
    return exchange.intact() ? 0 : kWrong;
  });
  for (const test::Ending& ending : ranks.wait()) EXPECT_EQ(ending.code, 0);
}

/// The survivor neither hangs nor dies, and leaves in time. Only memory that is shared gives no sign of a
/// death.
TEST_P(OverTransports, APeerIsKilledWhileMessagesAreUnderWay) {
  const bool notices = std::string(GetParam()) == "tcp,self";
  // Not while UCX connects: there the death of a peer makes UCX 1.13 abort the process now and then.
  for (const std::uint32_t after : {1U, 8U, 15U}) {
    test::ForkedRanks ranks(2, [&](process::Bootstrap& bootstrap) {
      use_transports();
      const host::SteadyClock clock;
      Time left = clock.now();
      int code = notices ? kNoError : 0;
      try {
        Exchange exchange(bootstrap);
        for (Microbatch m = 0; m < kMicrobatches; ++m) exchange.send(m);
        const Time until = clock.now() + (notices ? Duration(20s) : Duration(1s));
        try {
          while (clock.now() < until) {
            exchange.look();
            if (bootstrap.rank() == 1 && exchange.arrived() >= after) std::raise(SIGKILL);
          }
          exchange.plane().abandon();
        } catch (...) {
          left = clock.now();
          throw;
        }
        left = clock.now();
      } catch (const Error& error) {
        code = std::string(error.what()).find("rank 1") != std::string::npos ? 0 : kWrong;
      }
      return clock.now() - left > 10s ? kLate : code;
    });
    const std::vector<test::Ending> endings = ranks.wait();
    EXPECT_EQ(endings[0].code, 0) << "killed after " << after << " messages";
    EXPECT_EQ(endings[0].signal, 0);
    EXPECT_EQ(endings[1].signal, SIGKILL);
  }
}

TEST_P(OverTransports, APeerThatLeavesWithoutAcceptingReleasesTheSender) {
  test::ForkedRanks ranks(2, [](process::Bootstrap& bootstrap) {
    use_transports();
    Exchange exchange(bootstrap);
    if (bootstrap.rank() == 1) return 0;
    for (Microbatch m = 0; m < kMicrobatches; ++m) exchange.send(m);
    return 0;
  });
  for (const test::Ending& ending : ranks.wait()) EXPECT_EQ(ending.code, 0);
}

INSTANTIATE_TEST_SUITE_P(MessagePlane, OverTransports,
                         ::testing::Values("posix,self", "posix,cma,self", "sysv,self", "tcp,self", "all"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, ',');
                           return name;
                         });

}  // namespace
}  // namespace sluice::ucx
