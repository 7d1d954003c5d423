#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/recorder.hpp"
#include "sluice/transport.hpp"

namespace sluice::adapt {

/// What tasks and messages of a pipeline take, averaged over what its ranks have recorded.
///
/// Averages are e = 0.9 e + 0.1 c, by chunk and pass and by edge and direction, from the first value on. The
/// newest times of each are kept too: an average says nothing of a heavy tail.
class Measurements {
 public:
  explicit Measurements(const Pipeline& pipeline);

  /// Takes in what the ranks recorded since their recorders were last cleared.
  /// @param recorders one a stage: of groups, the first rank's
  void add(std::span<Recorder* const> recorders);

  /// Every pass of every chunk has been seen.
  [[nodiscard]] bool complete() const noexcept;

  /// Zero for what has not been seen. A backward is the input gradient alone.
  [[nodiscard]] Duration task(Chunk chunk, Pass pass) const noexcept;
  /// One of the newest times of that chunk and pass; the same for the same draw.
  [[nodiscard]] Duration task(Chunk chunk, Pass pass, std::uint64_t draw) const noexcept;
  /// From the sending of a message to its receiver noticing it.
  [[nodiscard]] Duration message(EdgeId edge, Direction direction) const noexcept;
  /// One of the newest times of that edge and direction; the same for the same draw.
  [[nodiscard]] Duration message(EdgeId edge, Direction direction, std::uint64_t draw) const noexcept;
  /// From the end of a task to its rank noticing it.
  [[nodiscard]] Duration notice() const noexcept;

  /// Largest relative difference of an average, weighted by what the tasks and messages of its kind take
  /// together.
  [[nodiscard]] double drift_since(const Measurements& earlier) const noexcept;

 private:
  class Average {
   public:
    void add(Duration value);
    [[nodiscard]] bool seen() const noexcept { return !newest_.empty(); }
    [[nodiscard]] double ns() const noexcept { return ns_; }
    /// One of the newest values; 0 without any.
    [[nodiscard]] Duration sample(std::uint64_t bits) const noexcept {
      return newest_.empty() ? Duration{0} : newest_[bits % newest_.size()];
    }

   private:
    double ns_ = 0;
    std::vector<Duration> newest_;
    std::size_t next_ = 0;
  };

  [[nodiscard]] static std::size_t place(EdgeId edge, Direction direction) noexcept {
    return std::size_t{edge} * 2 + static_cast<std::size_t>(direction);
  }

  std::vector<std::array<Average, kPasses>> tasks_;
  /// By edge and direction.
  std::vector<Average> messages_;
  Average notice_;
};

}  // namespace sluice::adapt
