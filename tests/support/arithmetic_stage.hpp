#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sluice/host/stage.hpp"
#include "sluice/iteration.hpp"
#include "sluice/pipeline.hpp"

namespace sluice::test {

/// A chunk with one weight: y = w * (sum of its inputs). The loss is half the square of what the last
/// chunks give out. Sums are of doubles, so the weight gradient shows the order of accumulation.
class ArithmeticStage : public host::Stage {
 public:
  ArithmeticStage(const Pipeline& pipeline, Chunk chunk);

  void prepare(std::uint32_t slots) override;
  void forward(const host::TaskContext& context, std::span<host::Payload> inputs,
               std::span<host::Payload> outputs) override;
  void backward(const host::TaskContext& context, bool whole, std::span<host::Payload> output_grads,
                std::span<host::Payload> input_grads) override;
  void weight_grad(const host::TaskContext& context) override;
  [[nodiscard]] TensorShape output_shape(std::size_t position) const override;

  /// One step of gradient descent.
  void step();

  [[nodiscard]] double weight() const noexcept { return weight_; }
  [[nodiscard]] double gradient() const noexcept { return gradient_; }
  /// Sum of what the chunk gave out in forward-only iterations.
  [[nodiscard]] double evaluated() const noexcept { return evaluated_; }
  [[nodiscard]] std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(saved_.size()); }

 private:
  struct Saved {
    double input = 0;
    double output = 0;
    double output_grad = 0;
  };

  Chunk chunk_;
  bool source_;
  bool sink_;
  double weight_;
  double gradient_ = 0;
  double evaluated_ = 0;
  std::vector<Saved> saved_;
};

/// The chunks of a pipeline.
using ArithmeticStages = std::vector<std::unique_ptr<ArithmeticStage>>;
[[nodiscard]] ArithmeticStages make_stages(const Pipeline& pipeline);
[[nodiscard]] std::vector<host::Stage*> pointers(const ArithmeticStages& stages);
[[nodiscard]] std::vector<double> weights(const ArithmeticStages& stages);

/// Runs one iteration, microbatch by microbatch, in this thread.
void run_sequentially(const Pipeline& pipeline, const Iteration& iteration, ArithmeticStages& stages);

}  // namespace sluice::test
