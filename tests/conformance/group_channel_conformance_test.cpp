#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "sluice/agree/group_channel.hpp"
#include "sluice/host/in_process_group.hpp"
#include "sluice/sim/sim_channel.hpp"
#include "sluice/sim/timetable.hpp"
#if SLUICE_HAVE_UCX
#include "rank_threads.hpp"
#include "sluice/ucx/message_plane.hpp"
#endif

/// What every channel of a group must do, whatever is behind it. A rig has all members' ends of one channel.
namespace sluice::agree {
namespace {

using namespace std::chrono_literals;

/// More than any test leaves unread.
constexpr std::size_t kUnread = 2000;

/// Members that are threads of one process.
class InProcessRig {
 public:
  static constexpr bool kThreads = true;

  InProcessRig(std::uint32_t members, std::size_t longest)
      : group_(std::vector<Wake*>(members, nullptr), {longest, kUnread}) {}

  GroupChannel& end(std::uint32_t member) { return group_.channel(member); }
  void pass_time() {}

 private:
  host::InProcessGroup group_;
};

/// Members in simulated time, whose messages take longer or shorter by turns.
class SimRig {
 public:
  static constexpr bool kThreads = false;

  SimRig(std::uint32_t members, std::size_t /*longest*/)
      : channels_(members, 0, clock_, timetable_, [this](std::uint32_t /*from*/, std::uint32_t /*to*/) {
          return Duration(++sent_ % 3 * 1ms);
        }) {}

  GroupChannel& end(std::uint32_t member) { return channels_.channel(member); }
  void pass_time() {
    if (timetable_.empty()) return;
    clock_.advance_to(timetable_.next_time());
    timetable_.pop();
  }

 private:
  sim::VirtualClock clock_;
  sim::Timetable timetable_;
  std::uint32_t sent_ = 0;
  sim::SimChannels channels_;
};

#if SLUICE_HAVE_UCX
/// Each member on a message plane of its own. Member m is not rank m.
class UcxGroupRig {
 public:
  static constexpr bool kThreads = true;

  UcxGroupRig(std::uint32_t members, std::size_t longest) : planes_(members), ends_(members) {
    std::vector<std::uint32_t> ranks(members);
    for (std::uint32_t member = 0; member < members; ++member) ranks[member] = members - 1 - member;
    test::on_each_rank(members, [&](process::Bootstrap& bootstrap) {
      const std::uint32_t member = ranks[bootstrap.rank()];
      planes_[member] = std::make_unique<ucx::MessagePlane>(bootstrap, ucx::PlaneOptions{});
      ends_[member] = planes_[member]->channel(3, ranks, longest);
    });
  }
  /// All planes end in this thread: none can wait for another.
  ~UcxGroupRig() {
    for (const auto& plane : planes_) plane->abandon();
  }
  UcxGroupRig(const UcxGroupRig&) = delete;
  UcxGroupRig& operator=(const UcxGroupRig&) = delete;

  GroupChannel& end(std::uint32_t member) { return *ends_[member]; }
  void pass_time() {
    for (const auto& plane : planes_) plane->progress();
  }

 private:
  std::vector<std::unique_ptr<ucx::MessagePlane>> planes_;
  std::vector<std::unique_ptr<GroupChannel>> ends_;
};
#endif

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::uint32_t from, std::uint32_t number, std::size_t length) {
  Bytes bytes(length);
  std::minstd_rand draw(1 + 1000 * from + number);
  for (std::byte& each : bytes) each = static_cast<std::byte>(draw());
  return bytes;
}

struct Got {
  std::uint32_t from = 0;
  Bytes bytes;

  friend bool operator==(const Got&, const Got&) = default;
};

template <typename Rig>
class GroupChannelConformance : public ::testing::Test {
 protected:
  static constexpr auto kLongest = 20s;

  /// Waits until the member has so many messages.
  static std::vector<Got> fetch(Rig& rig, std::uint32_t member, std::size_t count) {
    std::vector<Got> got;
    const auto until = std::chrono::steady_clock::now() + kLongest;
    while (got.size() < count && std::chrono::steady_clock::now() < until) {
      rig.pass_time();
      fetch_some(rig, member, got);
    }
    return got;
  }
  static void fetch_some(Rig& rig, std::uint32_t member, std::vector<Got>& got) {
    std::uint32_t from = 0;
    std::span<const std::byte> message;
    while (rig.end(member).poll(from, message)) got.push_back({from, Bytes(message.begin(), message.end())});
  }
  static void expect_nothing(Rig& rig, std::uint32_t member) {
    std::vector<Got> got;
    for (int turn = 0; turn < 200; ++turn) {
      rig.pass_time();
      fetch_some(rig, member, got);
    }
    EXPECT_TRUE(got.empty());
  }
};

#if SLUICE_HAVE_UCX
using Rigs = ::testing::Types<InProcessRig, SimRig, UcxGroupRig>;
#else
using Rigs = ::testing::Types<InProcessRig, SimRig>;
#endif
TYPED_TEST_SUITE(GroupChannelConformance, Rigs);

TYPED_TEST(GroupChannelConformance, KnowsItsMembers) {
  TypeParam rig(3, 16);
  for (std::uint32_t member = 0; member < 3; ++member) {
    EXPECT_EQ(rig.end(member).members(), 3U);
    EXPECT_EQ(rig.end(member).member(), member);
    this->expect_nothing(rig, member);
  }
}

TYPED_TEST(GroupChannelConformance, AGroupOfOneHasNobodyToTalkTo) {
  TypeParam rig(1, 16);
  EXPECT_EQ(rig.end(0).members(), 1U);
  this->expect_nothing(rig, 0);
}

TYPED_TEST(GroupChannelConformance, AMessageArrivesOnceAndOnlyWhereItWasSentTo) {
  TypeParam rig(3, 16);
  rig.end(2).send(0, bytes_of(2, 0, 16));
  EXPECT_EQ(this->fetch(rig, 0, 1), (std::vector<Got>{{2, bytes_of(2, 0, 16)}}));
  for (std::uint32_t member = 0; member < 3; ++member) this->expect_nothing(rig, member);
}

TYPED_TEST(GroupChannelConformance, CopiesTheMessage) {
  TypeParam rig(2, 64);
  Bytes bytes = bytes_of(0, 0, 64);
  rig.end(0).send(1, bytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  EXPECT_EQ(this->fetch(rig, 1, 1), (std::vector<Got>{{0, bytes_of(0, 0, 64)}}));
}

TYPED_TEST(GroupChannelConformance, CarriesAnyLengthUpToTheLongest) {
  constexpr std::size_t kLongest = 10000;
  TypeParam rig(2, kLongest);
  std::vector<Got> sent;
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{300},
                                   std::size_t{8192}, kLongest - 1, kLongest}) {
    sent.push_back({0, bytes_of(0, static_cast<std::uint32_t>(sent.size()), length)});
    rig.end(0).send(1, sent.back().bytes);
  }
  EXPECT_EQ(this->fetch(rig, 1, sent.size()), sent);
}

/// Long and short ones mixed: a medium may send them by different ways.
TYPED_TEST(GroupChannelConformance, KeepsTheOrderOfEachSender) {
  constexpr std::uint32_t kMessages = 500;
  TypeParam rig(3, 20000);
  const auto length = [](std::uint32_t number) {
    return std::size_t{number % 7 == 0 ? 20000U : number % 50};
  };
  for (std::uint32_t number = 0; number < kMessages; ++number) {
    rig.end(1).send(0, bytes_of(1, number, length(number)));
    rig.end(2).send(0, bytes_of(2, number, length(number + 3)));
  }
  std::vector<Got> got;
  const auto until = std::chrono::steady_clock::now() + this->kLongest;
  while (got.size() < 2 * kMessages && std::chrono::steady_clock::now() < until) {
    rig.pass_time();
    this->fetch_some(rig, 0, got);
  }
  ASSERT_EQ(got.size(), 2 * kMessages);
  std::uint32_t next[] = {0, 0, 0};
  for (const Got& each : got) {
    const std::uint32_t number = next[each.from]++;
    EXPECT_EQ(each.bytes, bytes_of(each.from, number, length(each.from == 1 ? number : number + 3)));
  }
}

TYPED_TEST(GroupChannelConformance, WhatWasFetchedStaysUntilTheNextCall) {
  TypeParam rig(2, 32);
  for (std::uint32_t number = 0; number < 3; ++number) rig.end(0).send(1, bytes_of(0, number, 32));
  std::uint32_t from = 0;
  std::span<const std::byte> message;
  const auto until = std::chrono::steady_clock::now() + this->kLongest;
  for (std::uint32_t number = 0; number < 3; ++number) {
    while (!rig.end(1).poll(from, message)) {
      rig.pass_time();
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
    rig.end(1).send(0, bytes_of(1, number, 32));
    EXPECT_EQ(Bytes(message.begin(), message.end()), bytes_of(0, number, 32));
  }
}

/// All send to all; each member on a thread of its own, where the medium is for threads.
TYPED_TEST(GroupChannelConformance, AllMembersTalkAtOnce) {
  constexpr std::uint32_t kMembers = 4;
  constexpr std::uint32_t kMessages = 300;
  constexpr std::size_t kExpected = (kMembers - 1) * kMessages;
  TypeParam rig(kMembers, 64);
  std::vector<std::vector<Got>> got(kMembers);
  const auto talk = [&](std::uint32_t member) {
    for (std::uint32_t number = 0; number < kMessages; ++number) {
      for (std::uint32_t to = 0; to < kMembers; ++to) {
        if (to != member) rig.end(member).send(to, bytes_of(member, number, number % 65));
      }
      this->fetch_some(rig, member, got[member]);
    }
  };
  std::atomic<std::uint32_t> complete{0};
  const auto listen = [&](std::uint32_t member) {
    const auto until = std::chrono::steady_clock::now() + this->kLongest;
    while (got[member].size() < kExpected && std::chrono::steady_clock::now() < until) {
      if (!TypeParam::kThreads) rig.pass_time();
      this->fetch_some(rig, member, got[member]);
    }
    // What this member has sent may still need its looking.
    for (++complete; TypeParam::kThreads && complete < kMembers && std::chrono::steady_clock::now() < until;)
      this->fetch_some(rig, member, got[member]);
  };
  if (TypeParam::kThreads) {
    std::vector<std::thread> threads;
    for (std::uint32_t member = 0; member < kMembers; ++member) {
      threads.emplace_back([&, member] {
        talk(member);
        listen(member);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    for (std::uint32_t member = 0; member < kMembers; ++member) talk(member);
    for (std::uint32_t member = 0; member < kMembers; ++member) listen(member);
  }
  for (std::uint32_t member = 0; member < kMembers; ++member) {
    ASSERT_EQ(got[member].size(), kExpected);
    std::uint32_t next[kMembers] = {};
    for (const Got& each : got[member]) {
      const std::uint32_t number = next[each.from]++;
      EXPECT_EQ(each.bytes, bytes_of(each.from, number, number % 65));
    }
  }
}

}  // namespace
}  // namespace sluice::agree
