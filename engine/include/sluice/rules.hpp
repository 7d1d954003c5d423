#pragma once

namespace sluice {

/// Where the default departs from the published rules. All members true is the default.
struct Rules {
  /// Weight gradients of a chunk are accumulated in microbatch order; a backward that is ready out of
  /// turn runs its input gradient at once and its weight gradient in turn.
  bool ordered_accumulation = true;
  /// A microbatch counts as in flight, and keeps its slot's credit, until its weight gradient ran;
  /// otherwise until its backward ran.
  bool hold_until_weight_grad = true;
  /// An admission leaves one free slot for each chunk whose oldest unfinished microbatch has none.
  bool reservation = true;
  /// What is received counts against the limit, not only what has run forward.
  bool bounded_admission = true;
  /// Several chunks at the limit: whatever was admitted may run, by the hint, and with the reservation
  /// each chunk keeps a share of the limit in proportion to its way to the end of the pipeline, which no
  /// other chunk fills. Otherwise, and wherever admission is not bounded, microbatches are finished one at
  /// a time.
  bool mixed_at_limit = true;
  /// While the limit keeps a forward out and no other forward is runnable, a weight gradient runs before a
  /// backward: it frees a slot, and frees it soonest.
  bool weight_grad_makes_room = true;

  /// The published rules: any order of accumulation, D = forwards - backwards, and a limit on
  /// forwards alone: whatever arrives is taken in. Several chunks at the limit finish one microbatch
  /// after the other, and a weight gradient waits for its turn in the round.
  [[nodiscard]] static constexpr Rules paper() noexcept { return {false, false, false, false, false, false}; }
};

}  // namespace sluice
