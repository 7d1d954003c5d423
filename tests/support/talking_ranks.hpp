#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "forked_ranks.hpp"
#include "sluice/process/bootstrap.hpp"

namespace sluice::test {

/// Forked ranks that tell the test what happens to them, and that the test sends signals to. The test has
/// no other threads while it makes them. None of them outlives this.
class TalkingRanks {
 public:
  /// One rank's side.
  class Self {
   public:
    Self(process::Bootstrap& meeting, int to_test) : bootstrap(meeting), to_test_(to_test) {}

    /// Tells the test one line.
    void say(const std::string& line) const;

    process::Bootstrap& bootstrap;

   private:
    int to_test_;
  };

  /// Each rank runs `body` and exits with what it returns; after an exception, which it says, with 99.
  TalkingRanks(std::uint32_t ranks, const std::function<int(Self&)>& body);
  ~TalkingRanks();
  TalkingRanks(const TalkingRanks&) = delete;
  TalkingRanks& operator=(const TalkingRanks&) = delete;

  void signal(std::uint32_t rank, int number) const;
  /// The next line the rank says, or nothing if it ends, or says nothing for long, first.
  [[nodiscard]] std::optional<std::string> line(std::uint32_t rank);
  /// The next line of every rank is this one.
  [[nodiscard]] bool all_say(const std::string& expected);
  /// The exit code, minus the signal's number, or nothing if the rank does not end.
  [[nodiscard]] std::optional<int> exit_code(std::uint32_t rank);

 private:
  struct Child {
    pid_t process = -1;
    int lines = -1;
    std::string read;
    std::optional<int> code;
  };

  MappedMeeting meeting_;
  std::vector<Child> children_;
};

}  // namespace sluice::test
