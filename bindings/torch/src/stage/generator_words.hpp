#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>

namespace sluice::capture {

/// A generator's state of torch, read from words on the device while a stream captures. Kernels under capture
/// are given the words' addresses, so that a replay draws from what they hold then (PyTorch, "CUDA Graph-safe
/// RNG states" in ATen/cuda/CUDAGeneratorImpl.h). Torch keeps them with each capture since 2.13, with the
/// generator before.
///
/// @param seed, offset one whole number of 64 bits each, on the device
/// @param used offset of the first draw
template <typename State, typename Tensor>
void read_from_words(State& state, std::uint64_t capture, const Tensor& seed, const Tensor& offset,
                     std::uint64_t used) {
  if constexpr (requires { state.capture_states_; }) {
    using Words = typename decltype(state.capture_states_)::mapped_type;
    auto words = c10::make_intrusive<typename Words::element_type>();
    words->rng_state_seed_extragraph_ = seed;
    words->rng_state_offset_extragraph_ = offset;
    words->offset_intragraph_ = used;
    const std::lock_guard lock(state.capture_states_mutex_);
    state.capture_states_[capture] = std::move(words);
  } else {
    state.seed_extragraph_ = seed;
    state.offset_extragraph_ = offset;
    state.offset_intragraph_ = static_cast<decltype(state.offset_intragraph_)>(used);
    state.capturing_ = true;
  }
}

/// The offset of the next draw.
template <typename State>
[[nodiscard]] std::uint64_t used_in_capture(State& state, std::uint64_t capture) {
  if constexpr (requires { state.capture_states_; }) {
    const std::lock_guard lock(state.capture_states_mutex_);
    const auto words = state.capture_states_.find(capture);
    return words == state.capture_states_.end() ? 0 : words->second->offset_intragraph_;
  } else {
    return state.offset_intragraph_;
  }
}

/// The capture has ended.
template <typename State>
void leave_words(State& state, std::uint64_t capture) {
  if constexpr (requires { state.capture_states_; }) {
    const std::lock_guard lock(state.capture_states_mutex_);
    state.capture_states_.erase(capture);
  } else {
    state.capturing_ = false;
  }
}

}  // namespace sluice::capture
