#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sluice/observer.hpp"

namespace sluice::test {

/// Keeps what an observer is told, as text: `launch F(chunk 0, microbatch 1)`, `wait message`.
class NotedObserver final : public Observer {
 public:
  void began(const Iteration& iteration) noexcept override {
    note("begin " + std::to_string(iteration.index));
  }
  void ended(const Iteration& iteration) noexcept override { note("end " + std::to_string(iteration.index)); }
  void launching(const Decision& decision) noexcept override {
    decisions.push_back(decision);
    note("launch " + to_string(decision.task));
  }
  void finished(const Done& done) noexcept override { note("done " + to_string(done.task)); }
  void arrived(const Arrival& arrival) noexcept override { note("arrival " + to_string(arrival.id)); }
  void waits(WaitFor what) noexcept override { note(std::string("wait ") + to_string(what)); }
  void stopped() noexcept override { note("stop"); }

  /// What was told since the last call.
  [[nodiscard]] std::vector<std::string> take() { return std::exchange(notes_, {}); }

  std::vector<Decision> decisions;

 private:
  void note(std::string text) { notes_.push_back(std::move(text)); }

  std::vector<std::string> notes_;
};

}  // namespace sluice::test
