#pragma once

#include <span>
#include <vector>

#include "sluice/executor.hpp"
#include "sluice/host/delay_model.hpp"

namespace sluice::host {

/// Passes everything on to another executor and keeps the times of what it ran.
class ObservedExecutor final : public Executor {
 public:
  explicit ObservedExecutor(Executor& inner) : inner_(inner) {}

  [[nodiscard]] std::uint32_t room(Lane lane) const override { return inner_.room(lane); }
  void launch(const Launch& launch) override { inner_.launch(launch); }
  bool poll(Done& done) override;
  [[nodiscard]] Time next_deadline() const override { return inner_.next_deadline(); }
  [[nodiscard]] std::string failure() const override { return inner_.failure(); }

  /// Forgets what has run and makes room for `tasks` more, so that keeping them allocates nothing.
  void begin(std::size_t tasks);
  /// What has ended since `begin`, in the order seen.
  [[nodiscard]] std::span<const Done> ran() const noexcept { return ran_; }
  [[nodiscard]] const ComputeAverage& compute_average() const noexcept { return average_; }

 private:
  Executor& inner_;
  std::vector<Done> ran_;
  ComputeAverage average_;
};

}  // namespace sluice::host
