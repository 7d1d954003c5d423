#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sluice/pipeline.hpp"
#include "sluice/stage_tasks.hpp"
#include "sluice/transport.hpp"

namespace sluice {

/// Files the messages of one stage by edge and microbatch, whatever order they come in.
///
/// Messages of the next iteration are held until it begins. Anything that cannot belong to the run
/// (an edge that does not end here, a microbatch out of range, a second copy, another iteration) is a
/// ProtocolError.
class Inbox {
 public:
  Inbox(const Pipeline& pipeline, StageId stage, std::uint32_t rank);

  /// Forgets the last iteration's messages.
  /// @throws ProtocolError if a held message is not of this iteration
  void begin(std::uint64_t iteration);
  /// The iteration is over; what comes now belongs to the next one.
  void end() noexcept { active_ = false; }

  /// Messages held for the iteration that has begun, to be filed by the caller.
  [[nodiscard]] std::span<const Offer> held() const noexcept { return held_; }
  void clear_held() noexcept { held_.clear(); }

  /// Checks an offer and files it as offered. False: it is of the next iteration and is held.
  bool file(const Offer& offer);

  /// The offers on file for the pair's forward that are not accepted yet, one an edge.
  [[nodiscard]] bool offered(EdgeId edge, Microbatch microbatch) const noexcept {
    return state(edge, Direction::Activation, microbatch) == State::Offered;
  }
  [[nodiscard]] const Offer& offer(EdgeId edge, Microbatch microbatch) const noexcept {
    return activations_[activation_at(edge, microbatch)].offer;
  }
  void accepted(const MessageId& id) noexcept { set(id, State::Accepted); }
  /// @throws ProtocolError if the message was not accepted or has arrived before
  void arrived(const MessageId& id);

  [[nodiscard]] bool has_arrived(EdgeId edge, Direction direction, Microbatch microbatch) const noexcept {
    return state(edge, direction, microbatch) == State::Arrived;
  }

 private:
  enum class State : std::uint8_t { Absent, Offered, Accepted, Arrived };
  struct Activation {
    State state = State::Absent;
    Offer offer;
  };
  static constexpr std::uint32_t kForeign = ~std::uint32_t{0};

  [[nodiscard]] std::size_t activation_at(EdgeId edge, Microbatch microbatch) const noexcept {
    return std::size_t{in_place_[edge]} * microbatches_ + microbatch;
  }
  [[nodiscard]] std::size_t gradient_at(EdgeId edge, Microbatch microbatch) const noexcept {
    return std::size_t{out_place_[edge]} * microbatches_ + microbatch;
  }
  [[nodiscard]] State state(EdgeId edge, Direction direction, Microbatch microbatch) const noexcept {
    return direction == Direction::Activation ? activations_[activation_at(edge, microbatch)].state
                                              : gradients_[gradient_at(edge, microbatch)];
  }
  void set(const MessageId& id, State state) noexcept;
  void check_address(const MessageId& id) const;
  [[noreturn]] void refuse(const MessageId& id, const char* reason) const;

  std::uint32_t rank_;
  Microbatch microbatches_;
  bool active_ = false;
  bool begun_ = false;
  std::uint64_t iteration_ = 0;
  /// Place of each pipeline edge among those that end in, or start from, this stage.
  std::vector<std::uint32_t> in_place_;
  std::vector<std::uint32_t> out_place_;
  std::vector<Activation> activations_;
  std::vector<State> gradients_;
  std::vector<Offer> held_;
};

}  // namespace sluice
