#pragma once

#include <chrono>
#include <cstdint>

#include "sluice/clock.hpp"
#include "sluice/cuda/completion_board.hpp"
#include "sluice/cuda/emulated_code.hpp"
#include "sluice/cuda/handles.hpp"
#include "sluice/host/steady_clock.hpp"

namespace sluice::microbench {

/// A stream on the first device, and tasks of one block that take as long as they are told.
class DeviceWork {
 public:
  static constexpr std::uint32_t kPlaces = 4;

  /// @throws ConfigError, CudaError
  DeviceWork();

  /// One task more at the place.
  void launch(std::uint32_t place, Duration time);
  /// Waits, without rest, until the condition holds.
  /// @throws Error if it does not for long
  template <typename Condition>
  void wait_until(const Condition& condition) const {
    const Time limit = clock_.now() + kLongest;
    while (!condition()) {
      if (clock_.now() > limit) give_up();
    }
  }
  void wait_for_flag(std::uint32_t place) const {
    wait_until([&] { return board_.ended(place); });
  }

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_.get(); }
  [[nodiscard]] cuda::CompletionBoard& board() noexcept { return board_; }
  [[nodiscard]] Time now() const { return clock_.now(); }

 private:
  static constexpr Duration kLongest = std::chrono::seconds(10);
  [[noreturn]] static void give_up();

  host::SteadyClock clock_;
  cuda::Stream stream_;
  cuda::CompletionBoard board_;
  Duration time_{0};
  cuda::EmulatedCode code_;
};

[[nodiscard]] inline double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace sluice::microbench
