#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "forked_ranks.hpp"
#include "sluice/transport.hpp"

namespace sluice::test {

/// Every rank ended with 0, but the one that was killed.
inline void expect_endings(ForkedRanks& ranks, int killed) {
  const std::vector<Ending> endings = ranks.wait();
  for (int rank = 0; rank < static_cast<int>(endings.size()); ++rank) {
    const Ending& ending = endings[static_cast<std::size_t>(rank)];
    if (rank == killed) {
      EXPECT_EQ(ending.signal, SIGKILL);
    } else {
      EXPECT_EQ(ending.code, 0) << "rank " << rank << ", signal " << ending.signal;
    }
  }
}

/// Until the transport throws, which it is expected to do within 20 s.
inline void poll_for_long(Transport& transport) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < until) {
    Offer offer;
    static_cast<void>(transport.poll(offer));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace sluice::test
