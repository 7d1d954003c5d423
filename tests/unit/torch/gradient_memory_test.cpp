#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "sequential_run.hpp"

namespace sluice::gpt {
namespace {

using test::kMicrobatches;
using test::SequentialRun;

/// Counts the tensor bytes this thread allocates and frees.
class TensorMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  [[nodiscard]] std::int64_t live() const noexcept { return live_; }
  /// Most bytes live since the last call.
  std::int64_t take_peak() noexcept { return std::exchange(peak_, live_); }

 private:
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

class GradientMemory : public testing::Test {
 protected:
  GradientMemory() : run_(test::small_config(), Pipeline::chain(1, kMicrobatches)) {
    run_.begin(IterationKind::Training);
  }

  SequentialRun run_;
  std::shared_ptr<TensorMemory> memory_ = std::make_shared<TensorMemory>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, memory_};
};

TEST_F(GradientMemory, NothingIsAllocatedThatOutlivesAMicrobatch) {
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    run_.forward(m);
    EXPECT_GT(memory_->live(), 0) << "the count sees no activations";
    run_.backward(m, /*whole=*/true);
    EXPECT_EQ(memory_->live(), 0) << "after microbatch " << m;
  }
}

TEST_F(GradientMemory, ThePeakDoesNotGrowWithTheMicrobatches) {
  std::int64_t first = 0;
  for (Microbatch m = 0; m < kMicrobatches; ++m) {
    run_.forward(m);
    run_.backward(m, /*whole=*/true);
    const std::int64_t peak = memory_->take_peak();
    if (m == 0) first = peak;
    EXPECT_EQ(peak, first) << "in microbatch " << m;
  }
}

TEST_F(GradientMemory, WeightGradientsNeedLessThanAllParametersAtATime) {
  run_.forward(0);
  run_.backward(0, /*whole=*/false);
  const std::int64_t before = memory_->live();
  (void)memory_->take_peak();
  run_.weight_grad(0);
  const auto parameters = static_cast<std::int64_t>(run_.rank(0).parameter_bytes());
  EXPECT_LT(memory_->take_peak() - before, parameters / 10);
}

TEST_F(GradientMemory, DeferredWeightGradientsFreeWhatTheyHold) {
  for (Microbatch m = 0; m < kMicrobatches; ++m) run_.forward(m);
  const std::int64_t activations = memory_->live();
  for (Microbatch m = kMicrobatches; m-- > 0;) run_.backward(m, /*whole=*/false);
  EXPECT_GT(memory_->live(), 0);
  EXPECT_LT(memory_->live(), 2 * activations);
  for (Microbatch m = 0; m < kMicrobatches; ++m) run_.weight_grad(m);
  EXPECT_EQ(memory_->live(), 0);
}

}  // namespace
}  // namespace sluice::gpt
