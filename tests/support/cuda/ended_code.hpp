#pragma once

#include "sluice/cuda/task_code.hpp"

namespace sluice::test {

/// Tasks without work, which have ended when they are launched: no stream hears of them.
class EndedCode final : public cuda::TaskCode {
 public:
  void enqueue(const Launch& /*launch*/, std::uint32_t place, const cuda::CompletionBoard& board,
               cudaStream_t /*stream*/) override {
    ++board.mark(place)->ended;
  }
};

}  // namespace sluice::test
