#include "sluice/torch/broken_pipes.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace sluice::gpt {
namespace {

/// A socket whose other end is gone.
class BrokenSocket {
 public:
  BrokenSocket() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    close(ends_[1]);
  }
  ~BrokenSocket() { close(ends_[0]); }
  BrokenSocket(const BrokenSocket&) = delete;
  BrokenSocket& operator=(const BrokenSocket&) = delete;

  void expect_an_error() const {
    EXPECT_EQ(write(ends_[0], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }

 private:
  int ends_[2] = {-1, -1};
};

bool blocked() {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, SIGPIPE) == 1;
}

TEST(BrokenPipesAreErrors, AWriteFailsAndTheProcessGoesOn) {
  const BrokenSocket socket;
  {
    const BrokenPipesAreErrors guard;
    socket.expect_an_error();
  }
  EXPECT_FALSE(blocked());
  sigset_t waiting;
  sigpending(&waiting);
  EXPECT_EQ(sigismember(&waiting, SIGPIPE), 0);
}

TEST(BrokenPipesAreErrors, InThreadsStartedMeanwhileToo) {
  const BrokenSocket socket;
  std::thread thread;
  {
    const BrokenPipesAreErrors guard;
    thread = std::thread([&] { socket.expect_an_error(); });
  }
  thread.join();
}

TEST(BrokenPipesAreErrors, LeavesAMaskThatWasThere) {
  const BrokenPipesAreErrors outer;
  { const BrokenPipesAreErrors inner; }
  EXPECT_TRUE(blocked());
}

TEST(BrokenPipesAreErrorsDeathTest, WithoutItAWriteEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const BrokenSocket socket;
        socket.expect_an_error();
      },
      testing::KilledBySignal(SIGPIPE), "");
}

}  // namespace
}  // namespace sluice::gpt
