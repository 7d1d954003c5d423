#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sluice/clock.hpp"
#include "sluice/executor.hpp"
#include "sluice/pipeline.hpp"
#include "sluice/transport.hpp"

/// Seams that cost next to nothing, to measure a dispatcher alone.
namespace sluice::test {

/// A first-in, first-out queue of fixed room.
template <typename T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t room) : items_(room) {}

  void push(const T& item) noexcept { items_[(head_ + size_++) % items_.size()] = item; }
  bool pop(T& item) noexcept {
    if (size_ == 0) return false;
    item = items_[head_];
    head_ = head_ + 1 == items_.size() ? 0 : head_ + 1;
    --size_;
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

class StoppedClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override { return Time{0}; }
};

/// A device whose one task ends as soon as it is asked about.
class NullExecutor final : public Executor {
 public:
  [[nodiscard]] std::uint32_t room(Lane /*lane*/) const override { return running_ ? 0 : 1; }
  void launch(const Launch& launch) override {
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
  Done done_;
  bool running_ = false;
};

/// Neighbours that are infinitely fast, for a stage of a chain of chunks: everything that can be offered
/// is offered at once.
class NullTransport final : public Transport {
 public:
  NullTransport(const Pipeline& pipeline, StageId stage)
      : pipeline_(pipeline), stage_(stage), offers_(messages()), arrivals_(messages()), sent_(messages()) {}

  void begin(std::uint64_t iteration) {
    iteration_ = iteration;
    const auto in = pipeline_.in_edges(pipeline_.chunks_of(stage_).front());
    if (in.empty()) return;
    for (Microbatch m = 0; m < pipeline_.microbatches(); ++m)
      offer({iteration_, m, in[0], Direction::Activation});
  }

  bool poll(Offer& offer) override { return offers_.pop(offer); }
  void accept(const Offer& offer, Slot slot) override { arrivals_.push({offer.id, slot}); }
  bool poll(Arrival& arrival) override { return arrivals_.pop(arrival); }
  void send(const MessageId& id, Slot slot) override {
    sent_.push({id, slot});
    const EdgeId reply =
        id.direction == Direction::Activation ? answer_to_activation(id) : answer_to_gradient(id);
    if (reply == kNoReply) return;
    offer({id.iteration, id.microbatch, reply, turned_ ? Direction::Gradient : id.direction});
  }
  bool poll(SendDone& done) override { return sent_.pop(done); }
  [[nodiscard]] Time next_deadline() const override { return kNever; }

 private:
  static constexpr EdgeId kNoReply = std::numeric_limits<EdgeId>::max();

  [[nodiscard]] std::size_t messages() const {
    return 4 * pipeline_.chunks_of(stage_).size() * pipeline_.microbatches();
  }
  void offer(const MessageId& id) { offers_.push({id, 0, 0, {}}); }

  /// The activation comes back at the stage's next chunk, or as a gradient if there is none.
  EdgeId answer_to_activation(const MessageId& id) {
    turned_ = false;
    for (const Chunk chunk : pipeline_.chunks_of(stage_)) {
      if (chunk > pipeline_.edges()[id.edge].from) return pipeline_.in_edges(chunk)[0];
    }
    turned_ = true;
    return id.edge;
  }

  EdgeId answer_to_gradient(const MessageId& id) {
    turned_ = false;
    EdgeId reply = kNoReply;
    for (const Chunk chunk : pipeline_.chunks_of(stage_)) {
      if (chunk < pipeline_.edges()[id.edge].to) reply = pipeline_.out_edges(chunk)[0];
    }
    return reply;
  }

  const Pipeline& pipeline_;
  StageId stage_;
  std::uint64_t iteration_ = 0;
  bool turned_ = false;
  FixedQueue<Offer> offers_;
  FixedQueue<Arrival> arrivals_;
  FixedQueue<SendDone> sent_;
};

}  // namespace sluice::test
